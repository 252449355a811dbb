#include "executor/run_identity.h"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <cstring>

#include "costmodel/base/hash.h"
#include "simulator/plan/plan_file.h"

namespace meshwright {
namespace {

// Name and description of a note are each padded to 4 bytes.
constexpr std::size_t padded(std::size_t size) { return (size + 3) / 4 * 4; }

// The build id among the notes of a segment, in hexadecimal.
std::optional<std::string> id_in(const std::byte* notes, std::size_t size) {
  for (std::size_t at = 0; at + sizeof(ElfW(Nhdr)) <= size;) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes + at, sizeof note);
    const std::byte* name = notes + at + sizeof note;
    const std::byte* text = name + padded(note.n_namesz);
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
      std::string id;
      for (std::size_t i = 0; i < note.n_descsz; ++i) {
        id += fmt::format("{:02x}", static_cast<unsigned>(text[i]));
      }
      return id;
    }
    at += sizeof note + padded(note.n_namesz) + padded(note.n_descsz);
  }
  return std::nullopt;
}

// Called for the running program first, which ends the search.
int read_program(dl_phdr_info* program, std::size_t, void* found) {
  for (int i = 0; i < program->dlpi_phnum; ++i) {
    const auto& segment = program->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const auto* notes = reinterpret_cast<const std::byte*>(program->dlpi_addr + segment.p_vaddr);
    if (auto id = id_in(notes, segment.p_memsz)) {
      *static_cast<std::optional<std::string>*>(found) = std::move(id);
    }
  }
  return 1;
}

}  // namespace

std::optional<std::string> build_id() {
  std::optional<std::string> id;
  dl_iterate_phdr(read_program, &id);
  return id;
}

RunIdentity identity_of(const Plan& plan, const std::vector<Dim>& dims) {
  Hash hash;
  hash.add(plan_text(plan, dims));
  return {.plan = hash.text(),
          .model = fmt::format("{} {}", plan.model.name, plan.model.hash),
          .build = build_id().value_or("of unknown origin"),
          .settings = ""};
}

}  // namespace meshwright
