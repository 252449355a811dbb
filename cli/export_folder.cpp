#include "cli/export_folder.h"

#include "costmodel/base/write_file.h"

namespace meshwright {
namespace {

void write_files(const std::vector<ExportedFile>& files, const std::filesystem::path& folder) {
  for (const ExportedFile& file : files) {
    const auto path = folder / file.name;
    std::filesystem::create_directories(path.parent_path());
    write_text_file(path, file.text);
    using enum std::filesystem::perms;
    if (file.is_program) {
      std::filesystem::permissions(path, owner_exec | group_exec | others_exec,
                                   std::filesystem::perm_options::add);
    }
  }
}

}  // namespace

bool is_new(const std::filesystem::path& folder) {
  return !std::filesystem::exists(std::filesystem::symlink_status(folder)) ||
         (std::filesystem::is_directory(folder) && std::filesystem::is_empty(folder));
}

void write_folder(const std::vector<ExportedFile>& files, const std::filesystem::path& folder) {
  if (!is_new(folder)) return write_files(files, folder);
  const auto target = folder.has_filename() ? folder : folder.parent_path();
  const auto parent = std::filesystem::absolute(target).parent_path();
  std::filesystem::create_directories(parent);
  const auto temporary = parent / random_file_name();
  try {
    write_files(files, temporary);
    std::filesystem::rename(temporary, target);
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove_all(temporary, ignored);
    throw;
  }
}

}  // namespace meshwright
