//! Every error code has a page, and every page has an error code.

use outlast_http::Code;
use std::collections::BTreeSet;
use std::path::Path;

#[test]
fn every_error_code_has_a_page_and_every_page_has_a_code() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors");
    let pages: BTreeSet<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "README.md")
        .map(|name| name.strip_suffix(".md").unwrap().to_owned())
        .collect();
    let codes: BTreeSet<String> = Code::ALL
        .iter()
        .map(|code| code.as_str().to_owned())
        .collect();
    assert_eq!(pages, codes);
    for code in Code::ALL {
        let page = std::fs::read_to_string(folder.join(format!("{}.md", code.as_str()))).unwrap();
        let head = format!("# `{}`", code.as_str());
        assert!(page.starts_with(&head), "{head}");
        assert!(
            page.contains(&code.status().as_u16().to_string()),
            "the page of {head} names its HTTP status"
        );
    }
    let list = std::fs::read_to_string(folder.join("README.md")).unwrap();
    for code in Code::ALL {
        assert!(
            list.contains(&format!("({}.md)", code.as_str())),
            "README.md lists {}",
            code.as_str()
        );
    }
}
