// A library that a stub for Python 3.99 needs; no machine has another.
extern "C" __attribute__((visibility("default"))) int Py_IsInitialized() { return 0; }
