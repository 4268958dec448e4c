//! Users who are identified by JSON Web Tokens.

use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RsaKeyPair};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hier_server::auth::Jwt;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use reqwest::Method;
use serde_json::{Value, json};

use crate::graphs::server;
use crate::support::{as_user, open};

fn in_an_hour() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("now").as_secs() + 3_600
}

#[tokio::test]
async fn signed_token_identifies_the_user() {
    let secret = b"a long random secret of the test";
    let desk = open(server().auth(Jwt::hs256(secret).issuer("https://login.example.org").audience("desk"))).await;
    let in_an_hour = in_an_hour();
    let claims = |change: &[(&str, Value)]| {
        let mut claims = json!({ "sub": "alice", "iss": "https://login.example.org", "aud": "desk", "exp": in_an_hour, "scope": "read write" });
        for (name, value) in change {
            claims[*name] = value.clone();
        }
        claims
    };
    let token = |claims: &Value, algorithm, secret: &[u8]| {
        encode(&Header::new(algorithm), claims, &EncodingKey::from_secret(secret)).expect("a token")
    };
    let good = token(&claims(&[]), Algorithm::HS256, secret);
    let (status, thread) = as_user(&desk, &good, Method::POST, "/threads", json!({})).await;
    assert_eq!((status, &thread["metadata"]["owner"]), (200, &json!("alice")));
    let unsigned = {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}.", part(&json!({ "alg": "none", "typ": "JWT" })), part(&claims(&[])))
    };
    for (why, bad) in [
        ("another secret", token(&claims(&[]), Algorithm::HS256, b"another")),
        ("another algorithm", token(&claims(&[]), Algorithm::HS512, secret)),
        ("not signed", unsigned),
        ("over", token(&claims(&[("exp", json!(in_an_hour - 7_200))]), Algorithm::HS256, secret)),
        ("not valid yet", token(&claims(&[("nbf", json!(in_an_hour))]), Algorithm::HS256, secret)),
        ("without an end", token(&claims(&[("exp", Value::Null)]), Algorithm::HS256, secret)),
        ("of another user", token(&claims(&[("iss", json!("https://evil.example.org"))]), Algorithm::HS256, secret)),
        ("for another user", token(&claims(&[("aud", json!("shop"))]), Algorithm::HS256, secret)),
        ("without a name", token(&claims(&[("sub", json!(""))]), Algorithm::HS256, secret)),
        ("no token", "zzz".to_owned()),
    ] {
        let (status, error) = as_user(&desk, &bad, Method::POST, "/threads", json!({})).await;
        assert_eq!(status, 401, "{why}: {error}");
        assert!(!error.to_string().contains(&bad), "{why}: the token is not shown");
    }
    desk.stop().await;
}

/// A new pair of keys in PEM format: the public one and the private one.
type PemPair = (String, String);

fn pem(label: &str, der: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der))
}

fn pem_pair<'a, P: AsDer<PublicKeyX509Der<'a>>>(public: &P, private: &[u8]) -> PemPair {
    (pem("PUBLIC KEY", public.as_der().expect("a public key").as_ref()), pem("PRIVATE KEY", private))
}

fn rsa() -> PemPair {
    let pair = RsaKeyPair::generate(KeySize::Rsa2048).expect("a pair of keys");
    let private = AsDer::<Pkcs8V1Der<'_>>::as_der(&pair).expect("a private key");
    pem_pair(pair.public_key(), private.as_ref())
}

fn p256() -> PemPair {
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a pair of keys");
    let private = pair.to_pkcs8v1().expect("a private key");
    pem_pair(pair.public_key(), private.as_ref())
}

fn ed25519() -> PemPair {
    let pair = Ed25519KeyPair::generate().expect("a pair of keys");
    let private = AsDer::<Pkcs8V1Der<'_>>::as_der(&pair).expect("a private key");
    pem_pair(pair.public_key(), private.as_ref())
}

#[tokio::test]
async fn token_is_accepted_only_with_the_signature_of_its_key() {
    type Parse = fn(&[u8]) -> Result<Jwt, hier_server::auth::BadKey>;
    type ReadKey = fn(&[u8]) -> jsonwebtoken::errors::Result<EncodingKey>;
    type Kind = (Algorithm, fn() -> PemPair, Parse, ReadKey);
    let kinds: [Kind; 3] = [
        (Algorithm::RS256, rsa, Jwt::rs256, EncodingKey::from_rsa_pem),
        (Algorithm::ES256, p256, Jwt::es256, EncodingKey::from_ec_pem),
        (Algorithm::EdDSA, ed25519, Jwt::eddsa, EncodingKey::from_ed_pem),
    ];
    let claims = json!({ "sub": "alice", "exp": in_an_hour() });
    for (algorithm, pair, parse, read_key) in kinds {
        let (public, private) = pair();
        let signed = |private: &str| {
            let key = read_key(private.as_bytes()).expect("a private key");
            encode(&Header::new(algorithm), &claims, &key).expect("a token")
        };
        let desk = open(server().auth(parse(public.as_bytes()).expect("a public key"))).await;
        let (status, thread) = as_user(&desk, &signed(&private), Method::POST, "/threads", json!({})).await;
        assert_eq!((status, &thread["metadata"]["owner"]), (200, &json!("alice")), "{algorithm:?}");
        // Everybody knows the public key, so it must not count as a shared secret.
        let confused = EncodingKey::from_secret(public.as_bytes());
        let confused = encode(&Header::new(Algorithm::HS256), &claims, &confused).expect("a token");
        for (why, bad) in [("the key of another pair", signed(&pair().1)), ("the public key as a secret", confused)] {
            let (status, error) = as_user(&desk, &bad, Method::POST, "/threads", json!({})).await;
            assert_eq!(status, 401, "{algorithm:?}, {why}: {error}");
        }
        desk.stop().await;
        let error = parse(private.replace("KEY", "PASSWORD").as_bytes()).expect_err("no public key").to_string();
        assert!(error.contains("-----BEGIN PUBLIC KEY-----"), "the fix: {error}");
        assert!(!error.contains(private.lines().nth(1).expect("the key")), "the key is not shown");
    }
}
