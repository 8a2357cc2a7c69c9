// The libpython of a stub for Python 3.99, a version that no machine has.
extern "C" __attribute__((visibility("default"))) int Py_IsInitialized() { return 0; }
