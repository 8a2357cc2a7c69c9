#pragma once

#ifdef __cplusplus
extern "C" {
#endif

/* Calls what every client calls, from C. Returns NULL, or what went wrong. */
const char* RunCClient(void);

#ifdef __cplusplus
}
#endif
