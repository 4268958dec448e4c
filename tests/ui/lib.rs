//! Empty: the package consists of its tests.
