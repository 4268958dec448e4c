//! Embeddings: requests, answers and errors.

use hier_core::store::{Embedder, Index, MemoryStore, Op, Search, Store, StoreError, StoreExt, StoreOptions};
use hier_models::Embeddings;
use serde_json::{Value, json};

use crate::support::{Reply, Server, failed, quick};

const KEY: &str = "sk-very-secret-1234";

fn reply(body: &Value) -> Reply {
    Reply::Whole(200, "", body.to_string())
}

fn texts(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("text {number}")).collect()
}

#[tokio::test]
async fn each_dialect_embeds() {
    let numbered =
        json!({ "data": [{ "index": 1, "embedding": [0.0, 1.0] }, { "index": 0, "embedding": [1.0, 0.0] }] });
    let listed = json!({ "embeddings": [[1.0, 0.0], [0.0, 1.0]] });
    let valued = json!({ "embeddings": [{ "values": [1.0, 0.0] }, { "values": [0.0, 1.0] }] });
    let server = Server::start([reply(&numbered), reply(&listed), reply(&valued)]).await;
    let models = [
        Embeddings::openai("m").url(&server.url),
        Embeddings::ollama("m").url(&server.url),
        Embeddings::gemini("m").url(&server.url),
    ];
    for model in models {
        let vectors = model.key(KEY).dimensions(2).embed(texts(2)).await.unwrap();
        assert_eq!(vectors, [[1.0, 0.0], [0.0, 1.0]], "in the order of the texts");
    }
    let asked = server.asked();
    let paths: Vec<_> = asked.iter().map(|asked| asked.head.split(' ').nth(1).unwrap().to_owned()).collect();
    assert_eq!(paths, ["/v1/embeddings", "/v1/api/embed", "/v1/models/m:batchEmbedContents"]);
    let openai = json!({ "model": "m", "input": ["text 0", "text 1"], "encoding_format": "float", "dimensions": 2 });
    assert_eq!(asked[0].body, openai);
    assert_eq!(asked[1].body, json!({ "model": "m", "input": ["text 0", "text 1"], "dimensions": 2 }));
    let request = json!({
        "model": "models/m", "content": { "parts": [{ "text": "text 1" }] }, "taskType": "RETRIEVAL_DOCUMENT",
        "outputDimensionality": 2,
    });
    assert_eq!(asked[2].body["requests"][1], request);
    assert!(
        asked[0].head.contains(&format!("Bearer {KEY}")) && asked[2].head.contains(&format!("x-goog-api-key: {KEY}"))
    );
}

#[tokio::test]
async fn queries_are_marked_where_necessary() {
    let server = Server::start([reply(&json!({ "embeddings": [{ "values": [1.0] }] }))]).await;
    let vector = Embeddings::gemini("m").url(&server.url).key(KEY).embed_query("where?".to_owned()).await.unwrap();
    assert_eq!(vector, [1.0]);
    assert_eq!(server.asked()[0].body["requests"][0]["taskType"], "RETRIEVAL_QUERY");
}

/// Many texts are sent in several requests, and their vectors are returned in order.
#[tokio::test]
async fn many_texts_are_sent_in_parts() {
    let batch = |from: usize, count: usize| {
        let data = (from..from + count)
            .zip(0..)
            .map(|(value, index): (usize, usize)| json!({ "index": index, "embedding": [value] }));
        reply(&json!({ "data": data.collect::<Vec<_>>() }))
    };
    let server = Server::start([batch(0, 256), failed(503, "", "busy"), batch(256, 44)]).await;
    let vectors = Embeddings::at(&server.url, "m").retry(quick()).embed(texts(300)).await.unwrap();
    let expected: Vec<Vec<f32>> = (0..300_u16).map(|value| vec![f32::from(value)]).collect();
    assert_eq!(vectors, expected);
    assert_eq!(server.asked().len(), 3, "only the part that failed is sent again");
    assert!(Embeddings::at(&server.url, "m").embed(Vec::new()).await.unwrap().is_empty());
    assert_eq!(server.asked().len(), 3, "no text, no request");
}

#[tokio::test]
async fn invalid_vectors_are_reported() {
    let vector = |index: u8| json!({ "index": index, "embedding": [1.0] });
    let cases = [
        (json!({ "data": [vector(0)] }), "1 vectors for 2 texts"),
        (json!({ "data": [vector(0), vector(0)] }), "no vectors found in the response"),
        (json!({ "data": [vector(0), { "index": 1, "embedding": ["x"] }] }), "no vectors found in the response"),
        (json!({ "error": { "message": format!("no credits for {KEY}") } }), "no credits for [the key]"),
        (json!({}), "no vectors found in the response"),
    ];
    for (body, received) in cases {
        let server = Server::start([reply(&body)]).await;
        let error = Embeddings::at(&server.url, "m").key(KEY).embed(texts(2)).await.unwrap_err().to_string();
        assert!(error.contains(received), "{error}");
    }
    let error = Embeddings::parse("opnai:m").unwrap_err().to_string();
    assert!(error.contains("did you mean `openai`?"), "{error}");
    let model = Embeddings::parse(&format!("ollama+http://me:{KEY}@localhost/v1#m")).unwrap();
    assert!(!format!("{model:?}").contains(KEY) && format!("{model:?}").contains("ollama"), "{model:?}");
}

/// A store searches with the vectors of a real client.
#[tokio::test]
async fn store_is_searched_by_meaning() {
    let vector = |vector: [f32; 2]| reply(&json!({ "data": [{ "index": 0, "embedding": vector }] }));
    let server = Server::start([vector([1.0, 0.0]), vector([0.0, 1.0]), vector([0.1, 0.9])]).await;
    let options = StoreOptions::default().index(Embeddings::at(&server.url, "m"), ["text"]).unwrap();
    let store = MemoryStore::new(options);
    for (key, text) in [("cat", "a cat"), ("car", "a car")] {
        store.put(["all"], key, &json!({ "text": text })).await.unwrap();
    }
    let found = store.search(Search::below(["all"]).near("something that drives")).await.unwrap();
    assert_eq!(found[0].key, "car");
}

/// Batches shrink to the server's limit, and texts that are too long are truncated.
#[tokio::test]
async fn batches_shrink_to_the_limits_of_the_server() {
    fn judge(body: &Value) -> Result<Value, String> {
        let texts = body["input"].as_array().unwrap();
        let longest = texts.iter().map(|text| text.as_str().unwrap().len()).max().unwrap_or_default();
        if texts.len() > 3 {
            return Err("batch size must be 3 or less".to_owned());
        }
        if longest > 100 {
            return Err("This model's maximum context length is 100 tokens".to_owned());
        }
        let data = texts.iter().zip(0..).map(
            |(text, index): (&Value, usize)| json!({ "index": index, "embedding": [text.as_str().unwrap().len()] }),
        );
        Ok(json!({ "data": data.collect::<Vec<_>>() }))
    }
    let server = Server::start((0..40).map(|_| Reply::Judged(judge))).await;
    let model = Embeddings::at(&server.url, "m").retry(quick());
    let mut all = texts(8);
    all.push("ü".repeat(150));
    let vectors = model.embed(all.clone()).await.unwrap();
    let expected: Vec<Vec<f32>> = [6.0; 8].into_iter().chain([74.0]).map(|length| vec![length]).collect();
    assert_eq!(vectors, expected);
    let before = server.asked().len();
    assert_eq!(model.batch_size(2).embed(texts(4)).await.unwrap().len(), 4);
    let sizes =
        server.asked()[before..].iter().map(|asked| asked.body["input"].as_array().unwrap().len()).collect::<Vec<_>>();
    assert_eq!(sizes, [2, 2]);
}

/// An error names the item whose text caused it. A request that fails for an unrelated reason is not repeated per text.
#[tokio::test]
async fn text_that_cannot_be_embedded_is_named() {
    fn judge(body: &Value) -> Result<Value, String> {
        let texts = body["input"].as_array().unwrap();
        if texts.iter().any(|text| text == "bad") {
            return Err("a text is bad".to_owned());
        }
        let data = (0..texts.len()).map(|index| json!({ "index": index, "embedding": [1.0] }));
        Ok(json!({ "data": data.collect::<Vec<_>>() }))
    }
    let server = Server::start((0..20).map(|_| Reply::Judged(judge))).await;
    let options = StoreOptions::default().index(Embeddings::at(&server.url, "m"), ["text"]).unwrap();
    let store = MemoryStore::new(options);
    let put = |key: &str, text: &str| Op::Put {
        namespace: vec!["all".to_owned()],
        key: key.to_owned(),
        value: json!({ "text": text }).as_object().cloned(),
        index: Index::Configured,
        time_to_live: None,
    };
    let error = store.batch(vec![put("a", "fine"), put("b", ""), put("c", "bad")]).await.unwrap_err().to_string();
    assert!(error.contains("item `c` in namespace `all`") && error.contains("a text is bad"), "{error}");
    store.batch(vec![put("a", "fine"), put("b", " "), put("d", "")]).await.unwrap();
    assert_eq!(server.asked().last().unwrap().body["input"], json!(["fine"]), "blank texts have no vectors");
    assert!(store.get(["all"], "b").await.unwrap().is_some(), "and are stored all the same");

    let model = Embeddings::at(&server.url, "m");
    let error = model.embed(vec!["fine".to_owned(), String::new()]).await.unwrap_err().to_string();
    assert_eq!(error, "cannot embed text 2: it is blank: remove it");
    let server = Server::start([failed(401, "", "who are you?")]).await;
    let error = Embeddings::at(&server.url, "m").embed(texts(9)).await.unwrap_err().to_string();
    assert!(error.contains("who are you?"), "{error}");
    assert_eq!(server.asked().len(), 1);
}

/// Gemini answers 400 to a wrong key. The client then sends neither halves of the batch nor single texts, and
/// attributes the error to no text.
#[tokio::test]
async fn request_errors_are_not_attributed_to_texts() {
    let body = json!({ "error": {
        "code": 400, "status": "INVALID_ARGUMENT", "message": "API key not valid. Please pass a valid API key.",
        "details": [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID" }],
    } });
    for count in [1, 100] {
        let server = Server::start((0..20).map(|_| failed(400, "", &body.to_string()))).await;
        let model = Embeddings::gemini("m").url(&server.url).key(KEY).retry(quick());
        let error = model.embed(texts(count)).await.unwrap_err();
        assert!(matches!(error, StoreError::Embedding(_)), "{error:?}");
        assert!(error.to_string().contains("API key not valid"), "{error}");
        assert_eq!(server.asked().len(), 2, "the texts once, and one that every server takes");
    }
}
