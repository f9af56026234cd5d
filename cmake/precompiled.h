// What nearly every source of the library includes, parsed once.
#pragma once

#include <bevel/core/autograd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>
#include <string>
