#pragma once

#include <memory>
#include <string>
#include <utility>

namespace meshwright {

// A text that many values have: a copy is the same text, not another one.
class SharedText {
 public:
  SharedText() = default;
  SharedText(std::string text) : text_(std::make_shared<const std::string>(std::move(text))) {}
  SharedText(const char* text) : SharedText(std::string(text)) {}

  const std::string& text() const {
    static const std::string none;
    return text_ ? *text_ : none;
  }
  operator const std::string&() const { return text(); }
  friend bool operator==(const SharedText& a, const SharedText& b) {
    return a.text_ == b.text_ || a.text() == b.text();
  }

 private:
  std::shared_ptr<const std::string> text_;
};

}  // namespace meshwright
