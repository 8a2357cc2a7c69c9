// A stub for Python 3.99, of a release that supports NumPy 1 only.
#include <cstdio>

extern "C" int Py_IsInitialized();

int main() { return std::puts("numpy.core.multiarray") < 0 || Py_IsInitialized(); }
