// The inline namespace that all of coir is in. It names the flavour of the library, since a program that mixes the two
// must not link (their objects have other sizes), and the version of what objects look like. Users never spell it.
#pragma once

// NOLINTBEGIN(cppcoreguidelines-macro-usage): a namespace's name cannot be a constant
#if defined(COIR_EXPLORE)
#define COIR_ABI explored_v1
#else
#define COIR_ABI v1
#endif
#define COIR_ABI_TEXT_OF(name) #name
#define COIR_ABI_TEXT_(name) COIR_ABI_TEXT_OF(name)
#define COIR_ABI_TEXT COIR_ABI_TEXT_(COIR_ABI)
// NOLINTEND(cppcoreguidelines-macro-usage)
