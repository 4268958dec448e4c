use {{crate}}::{Order, Review};
use hier::checkpoint::MemorySaver;
use hier::graph::draw;
use hier::prelude::*;

#[tokio::main]
async fn main() -> hier::Result<()> {
    draw::on_request(&[Review::SPEC]); // for `hier graph`
    let amount = std::env::args().nth(1).unwrap_or_else(|| "50".to_owned()).parse()?;
    let review = Review::compile().checkpointer(MemorySaver::new());
    let mut outcome = review.invoke(Order::update().amount(amount)).thread("order").await?;
    while let Outcome::Interrupted(asked) = outcome {
        println!("{}", asked.questions[0].parse::<String>()?);
        let mut answer = String::new();
        if std::io::stdin().read_line(&mut answer)? == 0 {
            return Ok(()); // no input; with a saver on disk the order would wait
        }
        outcome = review.invoke(Command::resume(answer.trim())).thread("order").await?;
    }
    for line in &outcome.state().log {
        println!("{line}");
    }
    Ok(())
}
