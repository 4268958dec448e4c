//! Resources that a server offers in addition to its graphs.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use hier_agents::{Content, Part};
use hier_core::NodeError;
use rmcp::model::{ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use serde::de::DeserializeOwned;

use super::graph_tool::{data, resolved};
use super::uri_template::{UriTemplate, parameters};

/// Reads the content. The argument has the parameters of the URI, as a query. The error describes wrong parameters.
type ReadContent = Arc<dyn Fn(&str) -> Result<ContentFuture, String> + Send + Sync>;
type ContentFuture = BoxFuture<'static, Result<Content, NodeError>>;

/// A text or a file that a server offers. Clients read the resource by its URI.
///
/// ```
/// use hier_core::message::Content;
/// use hier_mcp::{McpServer, ServedResource};
///
/// let terms = ServedResource::new("shop://terms", "terms", "Returns within 14 days.").description("The terms of sale.");
/// let stock = ServedResource::reading("shop://stock", "stock", || async { Ok(Content::from("3 chairs")) });
/// let server = McpServer::new().resource(terms).resource(stock.media_type("text/plain"));
/// # let _ = server;
/// ```
#[derive(Clone)]
#[must_use = "a resource does nothing until a server has it"]
pub struct ServedResource {
    listed: Resource,
    /// The template, or its mistake, if the URI has parameters.
    template: Option<Result<UriTemplate, String>>,
    read: ReadContent,
}

impl fmt::Debug for ServedResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServedResource").field("uri", &self.listed.uri).finish_non_exhaustive()
    }
}

impl ServedResource {
    /// Creates a resource with fixed content.
    pub fn new(uri: impl Into<String>, name: impl Into<String>, content: impl Into<Content>) -> Self {
        let content = content.into();
        Self::reading(uri, name, move || std::future::ready(Ok(content.clone())))
    }

    /// Creates a resource whose content can change. For each request, the server calls the function `read` and sends
    /// the content that it returns. If the function returns an error, the client receives the error.
    ///
    /// Cancel safety: the server drops the future if the client cancels its request.
    pub fn reading<F, R>(uri: impl Into<String>, name: impl Into<String>, read: F) -> Self
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = Result<Content, NodeError>> + Send + 'static,
    {
        Self { listed: Resource::new(uri, name), template: None, read: Arc::new(move |_| Ok(Box::pin(read()))) }
    }

    /// Creates a family of resources whose URIs have parameters, such as `shop://orders/{number}`. For each request,
    /// the function `read` receives the parameters as the fields of a struct. A parameter has at least one character,
    /// and does not contain `/`. The server rejects a URI whose parameters do not fit the types of the fields.
    ///
    /// Clients can list the template, but not the resources that it describes. If several templates match a URI, the
    /// server uses the first of them.
    ///
    /// ```
    /// use hier_core::message::Content;
    /// use hier_mcp::{McpServer, ServedResource};
    ///
    /// #[derive(serde::Deserialize)]
    /// struct OrderUri {
    ///     number: u32,
    /// }
    ///
    /// let orders = ServedResource::template("shop://orders/{number}", "order", |uri: OrderUri| async move {
    ///     Ok(Content::from(format!("The order {}.", uri.number)))
    /// });
    /// let server = McpServer::new().resource(orders);
    /// # let _ = server;
    /// ```
    ///
    /// Cancel safety: the server drops the future if the client cancels its request.
    pub fn template<P, F, R>(uri: impl Into<String>, name: impl Into<String>, read: F) -> Self
    where
        P: DeserializeOwned,
        F: Fn(P) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Content, NodeError>> + Send + 'static,
    {
        let listed = Resource::new(uri, name);
        let template = Some(UriTemplate::parse(&listed.uri));
        Self { listed, template, read: Arc::new(move |query| Ok(Box::pin(read(parameters(query)?)))) }
    }

    /// Sets the description for clients and models.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.listed.description = Some(text.into());
        self
    }

    /// Sets the media type of text, such as `text/markdown`. Has no effect on images and files, which have their own
    /// media types.
    pub fn media_type(mut self, media_type: impl Into<String>) -> Self {
        self.listed.mime_type = Some(media_type.into());
        self
    }

    pub(crate) fn uri(&self) -> &str {
        &self.listed.uri
    }

    pub(crate) fn is_template(&self) -> bool {
        self.template.is_some()
    }

    /// Returns the resource for lists, if it is not a template.
    pub(crate) fn listed(&self) -> Option<Resource> {
        self.template.is_none().then(|| self.listed.clone())
    }

    pub(crate) fn listed_template(&self) -> Option<ResourceTemplate> {
        self.template.as_ref()?;
        let Resource { uri, name, description, mime_type, .. } = self.listed.clone();
        let mut template = ResourceTemplate::new(uri, name);
        (template.description, template.mime_type) = (description, mime_type);
        Some(template)
    }

    /// Returns the parameters of a URI of this resource, as a query. Returns `None` for other URIs.
    pub(crate) fn parameters(&self, uri: &str) -> Option<String> {
        match &self.template {
            None => (uri == self.uri()).then(String::new),
            Some(template) => template.as_ref().ok()?.read(uri),
        }
    }

    /// Returns the mistake in the URI, if there is one.
    pub(crate) fn mistake(&self) -> Option<String> {
        if let Some(Err(why)) = &self.template {
            return Some(format!(
                "the resource `{}` has the invalid template `{}`: {why}",
                self.listed.name,
                self.uri()
            ));
        }
        let uri = self.uri();
        let scheme = uri.split_once(':').map(|(scheme, _)| scheme).unwrap_or_default();
        let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.chars().all(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter));
        let is_plain = !uri.contains(|letter: char| letter.is_whitespace() || letter.is_control());
        (!is_scheme || !is_plain).then(|| {
            format!(
                "the resource `{}` needs an absolute URI, such as `shop://terms`, and not `{uri}`",
                self.listed.name
            )
        })
    }

    /// Reads the resource with this URI and these parameters. The outer error describes wrong parameters.
    pub(crate) fn read(
        &self,
        uri: &str,
        query: &str,
    ) -> Result<impl Future<Output = Result<ReadResourceResult, NodeError>>, String> {
        let content = (self.read)(query)?;
        Ok(async move {
            let parts = match content.await? {
                Content::Text(text) => vec![Part::text(text)],
                Content::Parts(parts) => parts,
            };
            Ok(ReadResourceResult::new(parts.into_iter().map(|part| self.contents(part, uri)).collect()))
        })
    }

    fn contents(&self, part: Part, uri: &str) -> ResourceContents {
        let own = self.listed.mime_type.as_deref();
        let text = |text: String, kind: Option<&str>| {
            let contents = ResourceContents::text(text, uri);
            match kind {
                Some(kind) => contents.with_mime_type(kind),
                None => contents,
            }
        };
        match resolved(part) {
            Part::Text { text: content } => text(content, own),
            Part::Image { url } => match data(&url) {
                Some((kind, data)) => ResourceContents::blob(data, uri).with_mime_type(kind),
                None => text(url, Some("text/uri-list")),
            },
            Part::File { url, media_type, .. } => match data(&url) {
                Some((kind, data)) => {
                    ResourceContents::blob(data, uri).with_mime_type(media_type.as_deref().unwrap_or(kind))
                }
                None => text(url, Some("text/uri-list")),
            },
            _ => text("[a part of an unsupported kind]".to_owned(), None),
        }
    }
}
