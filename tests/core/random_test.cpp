#include <bevel/core/philox.h>
#include <bevel/core/random.h>

#include <testing.h>

namespace bevel {
namespace {

// Known answers of Philox 4x32-10 published with the Random123 library.
TEST(Philox, GivesTheKnownAnswers) {
  const auto words = [](std::uint64_t seed, std::uint64_t counter, std::uint64_t stream) {
    const Philox4 r = philox(seed, counter, stream);
    return std::vector<std::uint32_t>{r.word[0], r.word[1], r.word[2], r.word[3]};
  };
  EXPECT_EQ(words(0, 0, 0), (std::vector<std::uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(words(~0ull, ~0ull, ~0ull), (std::vector<std::uint32_t>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(words(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e),
            (std::vector<std::uint32_t>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UniformNumbersStayBelowOne) {
  EXPECT_EQ(uniform_float(0), 0.0f);
  EXPECT_LT(uniform_float(0xffffffffu), 1.0f);
  EXPECT_LT(uniform_double(0xffffffffu, 0xffffffffu), 1.0);
  EXPECT_EQ(uniform_double(0x80000000u, 0), 0.5);
}

TEST(Generator, ReservesPlacesInOrder) {
  Generator generator(7);
  EXPECT_EQ(generator.reserve(10).offset, 0u);
  EXPECT_EQ(generator.reserve(1).offset, 10u);
  EXPECT_EQ(generator.state().offset, 11u);
  generator.seed(8);
  EXPECT_EQ(generator.reserve(1).seed, 8u);
  generator.set_state({1, 2});
  EXPECT_EQ(generator.reserve(1).offset, 2u);
}

}  // namespace
}  // namespace bevel
