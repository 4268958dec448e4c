use {{crate}}::{Order, Review};
use hier::prelude::*;
use hier::testing::{FakeOperator, Session};

hier::testing::lock!(Review); // for `hier lock` and `hier check`

#[tokio::test]
async fn small_order_is_accepted() {
    let run = Session::new(&Review::compile(), || ()).run(Order::update().amount(50)).await;
    run.assert_nodes(["weigh", "accept"]);
    assert_eq!(run.assert_finished().log, ["it costs 50", "accepted"]);
}

#[tokio::test]
async fn large_order_is_signed_first() {
    let operator = FakeOperator::new().answer_node("sign", "Ada");
    let run = Session::new(&Review::compile(), || ()).operator(operator).run(Order::update().amount(500)).await;
    run.assert_nodes(["weigh", "sign", "accept"]);
    assert_eq!(run.assert_finished().log, ["it costs 500", "signed by Ada", "accepted"]);
}
