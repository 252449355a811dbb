#include "tests/forms/form_table.h"

#include <catch2/catch.hpp>
#include <cstdlib>

#include "costmodel/base/json_input.h"

namespace meshwright {

TEST_CASE("the table of forms in docs/forms.md is what the program says") {
  const std::string document = read_text_file(MESHWRIGHT_DOCS "/forms.md", 1_MiB);
  const auto lines = table_cells(document);
  REQUIRE(lines.size() == all_forms().size());
  constexpr std::size_t kTrained = 4;
  FormTable table;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    REQUIRE(lines[i].size() == 8);
    const std::string& trained = lines[i][kTrained];
    CAPTURE(all_forms()[i].name, trained);
    // `forms` trains them; here is what it takes no training to know.
    CHECK(std::atof(trained.c_str()) > 0);
    CHECK(std::atof(trained.c_str()) <= 1e-10);
    const auto expected =
        table_cells(std::string(kFormTableHead) + line_of(table.row(all_forms()[i]), trained));
    CHECK(lines[i] == expected.at(0));
  }
}

TEST_CASE("every form meets its closed form in a test that is there") {
  std::string sources;
  for (const char* file : {"activation", "context", "experts", "lowering", "offload", "pipeline",
                           "tensor_form", "zero"}) {
    sources +=
        read_text_file(MESHWRIGHT_TESTS "/simulator/" + std::string(file) + "_test.cpp", 1_MiB);
  }
  for (const Form& form : all_forms()) {
    std::string name(form.closed_form_test);
    if (name.ends_with('*')) name.pop_back();
    CAPTURE(form.name, name);
    CHECK(sources.find('"' + name) != sources.npos);
  }
}

}  // namespace meshwright
