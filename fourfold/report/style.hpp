// The style of a page.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace fourfold::report {

/// The content of its <style> element.
const char* style();

}  // namespace fourfold::report
