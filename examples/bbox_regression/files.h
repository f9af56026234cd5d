// Whole files as bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace bbox {

// Errors: missing, not a file, unreadable. Each names the file.
std::vector<std::uint8_t> read_bytes(const std::filesystem::path& path);

// Replaces what the file held. Error, naming it, if it cannot be written.
void write_text(const std::filesystem::path& path, const std::string& text);

// Makes the folder and those above it. Errors: a file is in the way, no permission.
void make_folder(const std::filesystem::path& folder);

}  // namespace bbox
