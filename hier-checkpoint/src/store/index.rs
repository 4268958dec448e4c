//! Search by meaning: texts become vectors, and a search compares its vector with those of all items.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};

use super::path::Path;
use super::rules::invalid;
use super::{Index, StoreError};

/// A model that converts texts to vectors, for searches by similarity. A store computes the similarity of two texts as
/// the cosine of the angle between their vectors.
///
/// The trait is object-safe. Implement it with [`async_trait`](crate::async_trait).
#[async_trait]
pub trait Embedder: Send + Sync + 'static {
    /// Returns a vector for each of these texts, in the order of the texts. All vectors must have the same length.
    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, StoreError>;

    /// Returns a vector for a search query. By default, this method calls [`embed`](Self::embed). Override it if the
    /// model distinguishes queries from the texts of items.
    async fn embed_query(&self, text: String) -> Result<Vec<f32>, StoreError> {
        let mut vectors = self.embed(vec![text]).await?;
        match (vectors.pop(), vectors.len()) {
            (Some(vector), 0) => Ok(vector),
            (None, _) => Err(StoreError::Embedding("the embedder returned no vector for the text".to_owned())),
            (Some(_), more) => {
                Err(StoreError::Embedding(format!("the embedder returned {} vectors for one text", more + 1)))
            }
        }
    }
}

#[derive(Clone)]
pub(super) struct Indexing {
    pub(super) embedder: Arc<dyn Embedder>,
    pub(super) fields: Vec<Path>,
}

impl Indexing {
    pub(super) fn texts(&self, value: &Map<String, Value>, index: &Index) -> Result<Vec<String>, StoreError> {
        let value = Value::Object(value.clone());
        let mut texts = Vec::new();
        match index {
            Index::None => {}
            Index::Fields(paths) => paths_of(paths)?.iter().for_each(|path| path.texts(&value, &mut texts)),
            Index::Configured => self.fields.iter().for_each(|path| path.texts(&value, &mut texts)),
        }
        Ok(texts)
    }

    pub(super) async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, StoreError> {
        let count = texts.len();
        let vectors = if count == 0 { Vec::new() } else { self.embedder.embed(texts).await? };
        if vectors.len() != count {
            return Err(StoreError::Embedding(format!(
                "the embedder returned {} vectors for {count} texts",
                vectors.len()
            )));
        }
        vectors.iter().try_for_each(|vector| check(vector))?;
        Ok(vectors)
    }

    pub(super) async fn embed_query(&self, text: &str) -> Result<Vec<f32>, StoreError> {
        let vector = self.embedder.embed_query(text.to_owned()).await?;
        check(&vector)?;
        Ok(vector)
    }
}

pub(super) fn paths_of(paths: &[String]) -> Result<Vec<Path>, StoreError> {
    if paths.is_empty() {
        return invalid(
            "`Index::Fields` needs at least one path: use `Index::None` to exclude an item from searches by meaning",
        );
    }
    paths.iter().map(|path| path.parse()).collect()
}

fn check(vector: &[f32]) -> Result<(), StoreError> {
    if vector.is_empty() {
        return Err(StoreError::Embedding("the embedder returned an empty vector".to_owned()));
    }
    if vector.iter().any(|number| !number.is_finite()) {
        return Err(StoreError::Embedding("the embedder returned a vector with NaN or an infinite number".to_owned()));
    }
    Ok(())
}

/// Returns the cosine similarity of two vectors, from −1 to 1. None if their lengths differ, 0 for a zero vector.
pub(super) fn cosine(a: &[f32], b: &[f32]) -> Option<f64> {
    if a.len() != b.len() {
        return None;
    }
    let (mut dot, mut a_square, mut b_square) = (0.0_f64, 0.0_f64, 0.0_f64);
    for (a, b) in a.iter().zip(b) {
        let (a, b) = (f64::from(*a), f64::from(*b));
        dot += a * b;
        a_square += a * a;
        b_square += b * b;
    }
    let length = (a_square * b_square).sqrt();
    Some(if length > 0.0 { (dot / length).clamp(-1.0, 1.0) } else { 0.0 })
}
