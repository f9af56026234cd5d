// AddressSanitizer asks this function of the program for its defaults. Tests of running out of memory ask for more than
// there can be, which is to give no memory, as everywhere else, and not to end the process.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() {
  return "allocator_may_return_null=1";
}
