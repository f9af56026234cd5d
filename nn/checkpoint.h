// Checkpoints: named tensors and strings in one file.
//
// The file is a safetensors file (little endian): the length of the header as u64; the header, JSON padded with spaces
// to a multiple of 8 bytes; then the elements of all tensors without gaps. The header maps each name to
// {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, with offsets in bytes behind the header, and
// "__metadata__" to an object of strings. Other tools read these files, and files of other tools can be read here.
//
// Files written here hold a checksum in the metadata, "bevel.checksum": 64-bit FNV-1a in 16 hexadecimal digits over the
// header, with zeros in place of the digits, and the elements.
#pragma once

#include <bevel/nn/module.h>
#include <bevel/nn/named_tensor.h>

#include <filesystem>
#include <map>
#include <span>
#include <string>

namespace bevel::nn {

using Metadata = std::map<std::string, std::string>;

struct Checkpoint {
  NamedTensors tensors;  // on the CPU, in the order of the header
  Metadata metadata;     // without the checksum
};

// Writes a temporary file beside `path`, then gives it its name: at no time is there half a checkpoint under `path`.
// Error if a name is given twice, or the file cannot be written; an older file is still there then.
void save_checkpoint(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                     const Metadata& metadata = {});

// Error, with the path and what is wrong, if the file cannot be read, is cut short, was damaged, or holds dtypes that
// Bevel lacks.
Checkpoint load_checkpoint(const std::filesystem::path& path);

// The state of a module as a checkpoint.
void save_weights(const std::filesystem::path& path, const Module& module, const Metadata& metadata = {});
// Loads such a file into `module`, on whatever device it is, and returns the metadata. Error naming the first entries
// that do not match if it is the checkpoint of another model; the module is unchanged then.
Metadata load_weights(const std::filesystem::path& path, Module& module);

}  // namespace bevel::nn
