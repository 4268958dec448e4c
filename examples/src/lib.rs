//! Nothing: this package is its examples, one runnable file a concept.
