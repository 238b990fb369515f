//! Generates bindings of Berkeley DB from the header of the installed library, only with the feature `berkeleydb`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "berkeleydb")]
    berkeleydb();
}

#[cfg(feature = "berkeleydb")]
fn berkeleydb() {
    let bindings = bindgen::Builder::default()
        .header_contents("libdb.h", "#include <db.h>")
        .allowlist_function("db_env_create|db_create|db_strerror")
        .allowlist_var("DB_.*")
        .prepend_enum_name(false)
        .layout_tests(false)
        .generate()
        .expect("db.h of Berkeley DB is installed");
    let folder = std::env::var("OUT_DIR").expect("cargo names a folder");
    let file = std::path::Path::new(&folder).join("libdb.rs");
    bindings.write_to_file(file).expect("the folder can be written");
    println!("cargo::rustc-link-lib=db");
}
