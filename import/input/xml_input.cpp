#include "import/input/xml_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <pugixml.hpp>
#include <set>

#include "costmodel/base/input_error.h"
#include "import/input/text_lines.h"

namespace meshwright {
namespace {

// Copies a parsed tree. Lines are counted on from the element before, since elements come in the
// order of the text.
class XmlCopy {
 public:
  XmlCopy(std::string_view text, const std::string& source) : text_(text), source_(source) {}

  XmlElement copy(const pugi::xml_node& node, std::int64_t depth) {
    XmlElement element{.name = node.name(), .line = line_at(node.offset_debug())};
    if (depth > kDeepestXml) {
      fail_line(source_, element.line,
                fmt::format("elements nest deeper than {} levels", kDeepestXml));
    }
    std::set<std::string_view> names;
    for (const pugi::xml_attribute& attribute : node.attributes()) {
      if (!names.insert(attribute.name()).second) {
        fail_line(source_, element.line,
                  fmt::format("the attribute \"{}\" is given twice", printable(attribute.name())));
      }
      element.attributes.emplace_back(attribute.name(), attribute.value());
    }
    element.text = trimmed(node.text().get());
    for (const pugi::xml_node& child : node.children()) {
      if (child.type() == pugi::node_element) element.children.push_back(copy(child, depth + 1));
    }
    return element;
  }

 private:
  std::int64_t line_at(std::ptrdiff_t offset) {
    const auto end =
        std::min(static_cast<std::size_t>(std::max<std::ptrdiff_t>(offset, 0)), text_.size());
    for (; counted_ < end; ++counted_) line_ += text_[counted_] == '\n' ? 1 : 0;
    return line_;
  }

  std::string_view text_;
  const std::string& source_;
  std::size_t counted_ = 0;
  std::int64_t line_ = 1;
};

}  // namespace

const XmlElement* XmlElement::child(std::string_view child_name) const {
  const auto found = std::ranges::find(children, child_name, &XmlElement::name);
  return found == children.end() ? nullptr : &*found;
}

const std::string* XmlElement::attribute(std::string_view attribute_name) const {
  const auto found =
      std::ranges::find(attributes, attribute_name, &std::pair<std::string, std::string>::first);
  return found == attributes.end() ? nullptr : &found->second;
}

XmlElement parse_xml(std::string_view text, const std::string& source) {
  require_text(text, source);
  pugi::xml_document document;
  const auto result =
      document.load_buffer(text.data(), text.size(), pugi::parse_default, pugi::encoding_utf8);
  if (!result) {
    const auto offset = static_cast<std::size_t>(std::max<std::ptrdiff_t>(result.offset, 0));
    fail_line(source, line_of(text, offset), fmt::format("is no XML: {}", result.description()));
  }
  return XmlCopy(text, source).copy(document.document_element(), 1);
}

}  // namespace meshwright
