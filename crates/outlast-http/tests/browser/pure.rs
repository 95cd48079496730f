//! Functions of the page that draw nothing, called in the browser.

use crate::Visit;
use crate::stage::{Setting, Stage};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn the_json_reader_keeps_raw_values_and_refuses_invalid_json() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    let stage = Stage::sqlite(Setting::default()).await;
    visit.page.go(&stage.ui).await;
    let kept = r#"import('./data/json.js').then(({ parse }) => {
        const read = parse(' {"id": "7", "state": {"n" : 9223372036854775807, "s": "}\\"]"} , "list":[1, {"state": [ ]}, null], "n": -1.5e2}', new Set(['state']));
        return [read.id, read.state.text, read.list[0], read.list[1].state.text, read.list[2], read.n];
    })"#;
    let expected = json!([
        "7",
        r#"{"n" : 9223372036854775807, "s": "}\"]"}"#,
        1,
        "[ ]",
        null,
        -150.0
    ]);
    let seen = visit.page.value(&from_base(kept)).await;
    assert_eq!(
        seen.to_string().replace("-150.0", "-150"),
        expected.to_string().replace("-150.0", "-150")
    );

    // The browser's own parser decides which of these texts are valid.
    let refused = r#"import('./data/json.js').then(({ problemOf }) => ['', ' ', '{', '[1,]', '{"a":}', '{"a"}', '{a:1}', "'x'", '01', '1.', '.5', '+1', '1e', 'nul', 'truefalse', '"\n"', '"\\x"', '"', '[1 2]', '{} {}', '[}', '{"a":1,}', 'NaN', '"\\u12"',
            '1', '"x"', '[]', '{}', ' [ 1 , { "a" : [ ] } ] ', '-0.5E+9', 'null', '"\\ud800"', '{"":""}']
        .filter((text) => {
            let fits = true;
            try { JSON.parse(text); } catch { fits = false; }
            return fits !== (problemOf(text) === null);
        }))"#;
    assert_eq!(visit.page.value(&from_base(refused)).await, json!([]));
    visit.end().await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn graphs_of_any_shape_are_laid_out_without_overlaps() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    let stage = Stage::sqlite(Setting::default()).await;
    visit.page.go(&stage.ui).await;
    // A small generator with a fixed seed makes the graphs, with cycles, isolated nodes and double
    // edges.
    let check = r#"import('./draw/graph.js').then(({ layout }) => {
        let seed = 42;
        const next = (below) => {
            seed = (seed * 1103515245 + 12345) % 2147483648;
            return seed % below;
        };
        const wrong = [];
        for (let round = 0; round < 150; round += 1) {
            const count = 1 + next(14);
            const nodes = Array.from({ length: count }, (_, id) => ({ id: `n${id}`, width: 100 + next(90), height: 40 + next(50), last: id > 0 && next(9) === 0 }));
            const edges = Array.from({ length: next(count * 2) }, () => ({ from: `n${next(count)}`, to: `n${next(count)}`, weight: next(1000) }))
                .filter((edge) => !nodes.find((node) => node.id === edge.from).last);
            for (const down of [false, true]) {
                const drawn = layout(nodes, edges, { down });
                const boxes = [...drawn.nodes.values()];
                const overlap = boxes.some((a, i) => boxes.some((b, j) => i < j && a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height));
                const outside = boxes.some((box) => box.x < -0.01 || box.y < -0.01 || box.x + box.width > drawn.width + 0.01 || box.y + box.height > drawn.height + 0.01);
                const lost = boxes.length !== count || drawn.edges.length !== edges.filter((edge) => edge.from !== edge.to).length;
                const broken = drawn.edges.some(({ points }) => points.length < 2 || points.flat().some((each) => !Number.isFinite(each)));
                if (overlap || outside || lost || broken) wrong.push({ round, down, overlap, outside, lost, broken });
            }
        }
        return wrong;
    })"#;
    assert_eq!(visit.page.value(&from_base(check)).await, json!([]));
    visit.end().await;
    stage.end().await;
}

/// Makes the import relative to the base of the page, because an evaluated expression has no
/// address of its own.
fn from_base(script: &str) -> String {
    script.replace("import('./", "import(document.baseURI + '")
}
