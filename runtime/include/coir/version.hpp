// The version of coir, for the preprocessor. CMake reads it here, so that there is one place to change it.
// What a version promises: docs/versioning.md.
#pragma once

/// The major number of the version.
#define COIR_VERSION_MAJOR 0
/// The minor number of the version.
#define COIR_VERSION_MINOR 1
/// The patch number of the version.
#define COIR_VERSION_PATCH 0

/// Grows with each version: #if COIR_VERSION >= 200 is true from 0.2.0 on.
#define COIR_VERSION (COIR_VERSION_MAJOR * 10000 + COIR_VERSION_MINOR * 100 + COIR_VERSION_PATCH)
