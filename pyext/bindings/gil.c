#include <Python.h>
#include <pthread.h>
#include <unistd.h>

#ifdef __EXCEPTIONS
#error "pthread_cleanup_push would unwind: compile this file without -fexceptions"
#endif

/* Before 3.14, Python ends a thread that asks for the GIL while the interpreter is being finalized
   by pthread_exit, which unwinds its stack: that aborts the process at the first noexcept function,
   and runs destructors that need the GIL. The handler below runs first and keeps the thread waiting
   until the process ends, as 3.14 does by itself. In C, because a handler of C++ is reached by
   unwinding, which a module with its own unwinder (-static-libgcc) cannot take part in. */
static void WaitForExit(void* unused) {
  (void)unused;
  for (;;) pause();
}

void EndcapTakeGil(PyThreadState* thread) {
  pthread_cleanup_push(WaitForExit, NULL);
  PyEval_RestoreThread(thread);
  pthread_cleanup_pop(0);
}
