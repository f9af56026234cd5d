#include "bbox_regression/progress.h"

#include <algorithm>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bbox {
namespace {

using testing::HasSubstr;

TEST(Progress, OnATerminalOneLineIsRedrawn) {
  std::ostringstream out;
  {
    Progress progress(out, true, "training", 1000);
    for (int i = 1; i <= 1000; ++i) progress.update(i, i == 1000 ? "done" : "a longer note");
  }
  const std::string text = out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_LT(std::count(text.begin(), text.end(), '\r'), 20);  // not at each of the steps
  EXPECT_THAT(text, HasSubstr("\rtraining  [============================]  100 %  took 0:00  done"));
  EXPECT_THAT(text, HasSubstr("[>       "));
}

TEST(Progress, ElsewhereALineEachTenth) {
  std::ostringstream out;
  {
    Progress progress(out, false, "training", 1000);
    for (int i = 1; i <= 1000; ++i) progress.update(i, "");
  }
  const std::string text = out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 10);
  EXPECT_EQ(text.find('\r'), std::string::npos);
  EXPECT_THAT(text, HasSubstr("training   50 %  0:00 left\n"));
}

TEST(Progress, ClockText) {
  EXPECT_EQ(clock_text(65), "1:05");
  EXPECT_EQ(clock_text(59.6), "1:00");
  EXPECT_EQ(clock_text(7207), "2:00:07");
  EXPECT_EQ(clock_text(-1), "0:00");
}

}  // namespace
}  // namespace bbox
