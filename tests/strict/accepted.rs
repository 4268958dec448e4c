//! The programs of `tests/ui` that must compile, in edition 2021. `hier-ui` runs them; here they must only compile.

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
