//! The programs of `tests/ui` that must compile, in edition 2021, and names that are keywords only in edition 2024.

macro_rules! programs {
    ($($name:ident: $path:literal),+ $(,)?) => {
        $(
            #[allow(dead_code, unreachable_pub, clippy::all, clippy::pedantic)]
            mod $name {
                include!(concat!("../ui/", $path));

                #[test]
                fn compiles_and_runs() {
                    main();
                }
            }
        )+
    };
}

include!("../ui/programs.rs");

/// `gen` is a keyword in edition 2024, the edition of the macros, and a plain name here.
mod names_of_this_edition {
    use hier_agents::prelude::*;
    use hier_draw::Draw;

    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    struct Names {
        gen: u32,
    }

    #[derive(View)]
    #[view(of = Names)]
    struct Seen<'a> {
        gen: &'a u32,
    }

    async fn gen(seen: Seen<'_>) -> NamesUpdate {
        Names::update().gen(*seen.gen + 1)
    }

    /// Counts.
    #[tool]
    async fn count(gen: u32) -> String {
        gen.to_string()
    }

    graph! {
        Counts<Names> = Graph { nodes: [gen, again = gen], edges: [START >> gen >> if state.gen > 1 { again } else { END }, again >> END] }
    }

    #[test]
    fn accepted_programs_compile() {
        assert!(Counts::compile().spec().mermaid().contains("gen"));
        assert!(format!("{:?}", count {}).contains("count"));
    }
}
