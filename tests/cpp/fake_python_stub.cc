// A stub for Python 3.99, of a release that supports NumPy 1 only. Without arguments it exits
// with 1.
#include <cstdio>

extern "C" int Py_IsInitialized();

int main() { return std::puts("numpy.core.multiarray") < 0 || Py_IsInitialized() == 0; }
