// The builds of DALI and endcap that this library belongs to. endcap.dali.load() searches the file
// for the text before it loads the library.
#include "endcap/c_api.h"

#ifndef ENDCAP_DALI_RELEASE
#define ENDCAP_DALI_RELEASE "unknown"
#endif
#ifndef ENDCAP_DALI_IDENTITY
#define ENDCAP_DALI_IDENTITY "unknown"
#endif
#ifndef ENDCAP_DALI_VERSION
#define ENDCAP_DALI_VERSION "unknown"
#endif
#define ENDCAP_DALI_TEXT_OF(value) #value
#define ENDCAP_DALI_TEXT(value) ENDCAP_DALI_TEXT_OF(value)

extern "C" __attribute__((visibility("default"), used)) const char endcap_dali_built_for[] =
    "endcap_dali built for " ENDCAP_DALI_RELEASE ";" ENDCAP_DALI_IDENTITY ";" ENDCAP_DALI_VERSION
    ";" ENDCAP_DALI_TEXT(ENDCAP_C_ABI);
