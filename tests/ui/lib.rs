//! Nothing: the package consists of its tests.
