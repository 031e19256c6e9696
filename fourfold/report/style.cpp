// SPDX-License-Identifier: Apache-2.0
#include "fourfold/report/style.hpp"

namespace fourfold::report {

const char* style() {
  return R"css(
:root{color-scheme:light dark;--page:#f6f7f9;--card:#fff;--text:#1c2330;--soft:#5b6575;--line:#e1e5eb;
--compute:#8fa3bd;--other:#d5dce6;--wait:#e5484d;--training:#2f6fdf;--validation:#e07b00;
--a0:#2f6fdf;--a1:#e07b00;--a2:#2e9e5b;--a3:#9b4fd1;--a4:#c2a000;--a5:#00a0b5;--a6:#d6478f;--a7:#7a5a3a;--a8:#5e7d00;--a9:#5661b3}
@media (prefers-color-scheme:dark){:root{--page:#12161d;--card:#1b212b;--text:#e6eaf1;--soft:#98a3b5;--line:#2d3644;
--compute:#667b99;--other:#39445a;--wait:#ff6369;--training:#6aa2ff;--validation:#ffab4a;
--a0:#6aa2ff;--a1:#ffab4a;--a2:#58c987;--a3:#c38bf0;--a4:#e0c341;--a5:#43cbdc;--a6:#f07fb8;--a7:#b8906a;--a8:#a3c244;--a9:#8f9bf0}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--text);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main{max-width:1180px;margin:0 auto;padding:28px 20px 48px}
h1{font-size:26px;line-height:1.2;margin:0 0 4px}
h2{font-size:17px;margin:0 0 10px}
h3{font-size:14px;margin:14px 0 0}
p{margin:0 0 10px;color:var(--soft)}
section{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:18px 20px;margin-top:18px;min-width:0}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(460px,100%),1fr));gap:0 18px}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(140px,1fr));gap:12px;margin:18px 0 0}
.figures div{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:12px 14px}
.figures dt{color:var(--soft);font-size:13px}
.figures dd{margin:2px 0 0;font-size:21px;font-weight:600;font-variant-numeric:tabular-nums}
svg{display:block;width:100%;height:auto}
.scroll{overflow-x:auto}
section>p:last-child{margin:10px 0 0;font-size:13px}
.scroll svg{min-width:760px}
svg text{fill:var(--soft);font-size:11px;font-family:inherit}
svg .label{font-size:12px}
svg .rank{fill:var(--text);font-weight:600;font-size:12px}
.mid{text-anchor:middle}.end{text-anchor:end}
.grid{stroke:var(--line)}.axis{stroke:var(--soft)}
.line{fill:none;stroke-width:1.8;stroke-linejoin:round}
path.training{stroke:var(--training)}path.validation{stroke:var(--validation)}
.dot.training{fill:var(--training)}.dot.validation{fill:var(--validation)}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:4px 16px;margin:10px 0 4px;padding:0;color:var(--soft);font-size:13px}
.legend i{display:inline-block;width:11px;height:11px;border-radius:3px;margin-right:6px}
.compute{fill:var(--compute);background:var(--compute)}.other{fill:var(--other);background:var(--other)}.wait{fill:var(--wait);background:var(--wait)}
.legend .ideal{background:var(--soft)}.legend .training{background:var(--training)}.legend .validation{background:var(--validation)}
.a0{fill:var(--a0);background:var(--a0)}.a1{fill:var(--a1);background:var(--a1)}.a2{fill:var(--a2);background:var(--a2)}.a3{fill:var(--a3);background:var(--a3)}.a4{fill:var(--a4);background:var(--a4)}
.a5{fill:var(--a5);background:var(--a5)}.a6{fill:var(--a6);background:var(--a6)}.a7{fill:var(--a7);background:var(--a7)}.a8{fill:var(--a8);background:var(--a8)}.a9{fill:var(--a9);background:var(--a9)}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{text-align:right;padding:4px 10px;border-bottom:1px solid var(--line);white-space:nowrap}
th{color:var(--soft);font-weight:500;font-size:13px}
td:first-child,th:first-child{text-align:left;padding-left:0}
#communication td:nth-child(2),#communication th:nth-child(2),.text{text-align:left}
.wide th,.wide td{padding:4px 6px;font-size:13px}.wide td.text{white-space:normal}
#memory{max-width:420px}
#facts td{text-align:left;white-space:normal;overflow-wrap:anywhere}#facts td:first-child{white-space:nowrap;color:var(--soft)}
.pictures{display:flex;flex-wrap:wrap;gap:16px}figure{margin:0}
.pictures img{display:block;image-rendering:pixelated;width:480px;max-width:100%;border:1px solid var(--line)}
figcaption{color:var(--soft);font-size:13px;margin-top:4px}
pre{margin:0;overflow-x:auto;font:13px/1.5 ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace}
footer{margin-top:18px;color:var(--soft);font-size:13px}
@media print{section,.figures div{break-inside:avoid}}
)css";
}

}  // namespace fourfold::report
