#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace meshwright {

// An element of an XML document, with what stands in it.
struct XmlElement {
  std::string name;
  std::int64_t line = 1;
  std::vector<std::pair<std::string, std::string>> attributes;
  std::string text;  // of the element itself, without blanks around it
  std::vector<XmlElement> children;

  // Null: there is none.
  const XmlElement* child(std::string_view child_name) const;
  const std::string* attribute(std::string_view attribute_name) const;
};

inline constexpr std::int64_t kDeepestXml = 128;

// The document's root. Nothing outside the text is read: a document type is skipped, and an entity
// that it declares stays the text that names it. Throws InputError with `source` and the line.
XmlElement parse_xml(std::string_view text, const std::string& source);

}  // namespace meshwright
