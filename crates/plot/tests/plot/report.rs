//! Reports: escaped, whole, without anything from outside.

use tidegate_plot::report::{Block, Cell, HtmlReport, Section, Span, Table, Tone};

const NASTY: &str = "<img src=x onerror=\"alert('1')\"> & \u{1}";

fn page() -> String {
    let spans = || {
        vec![
            Span::Plain(NASTY.to_owned()),
            Span::Strong(NASTY.to_owned()),
            Span::Code(NASTY.to_owned()),
            Span::Link { to: format!("#{NASTY}"), text: NASTY.to_owned() },
            Span::Link { to: NASTY.to_owned(), text: NASTY.to_owned() },
            Span::Badge(Tone::Bad, NASTY.to_owned()),
        ]
    };
    let table = Table::new([NASTY], vec![vec![Cell { spans: spans(), number: true }]]);
    let part = Section::new("part", "Part").with(Block::Table(table)).with(Block::List(vec![spans()]));
    let mut section = Section::new(NASTY, NASTY).with(Block::Text(spans())).with(Block::Note(spans()));
    section.blocks.push(Block::Folded { summary: NASTY.to_owned(), blocks: vec![Block::Warning(spans())] });
    section.blocks.push(Block::Picture { svg: "<svg></svg>".to_owned(), caption: spans() });
    section.badges.push(Cell::badge(Tone::Good, NASTY));
    section.sections.push(part);
    let mut report = HtmlReport::new(NASTY, vec![section]);
    report.lead.push(Block::Text(spans()));
    report.to_html()
}

#[test]
fn whatever_goes_in_is_escaped() {
    let page = page();
    assert!(!page.contains("<img") && !page.contains("'1'") && !page.contains('\u{1}'));
    assert!(page.contains("&lt;img src=x onerror=&quot;alert(&#39;1&#39;)&quot;&gt; &amp; \u{fffd}"));
}

#[test]
fn tags_are_closed_in_their_order() {
    let page = page();
    let body = &page[page.find("<body>").unwrap()..page.find("</html>").unwrap()];
    // Nothing in the body may stand without an end, so it is XML too.
    let document = roxmltree::Document::parse(body).unwrap();
    let sections = document.descendants().filter(|node| node.has_tag_name("section")).count();
    assert_eq!(sections, 2);
}

#[test]
fn links_within_the_page_lead_somewhere() {
    let section = Section::new("errors of lpu (ε)", "Errors");
    let mut report = HtmlReport::new("t", vec![section]);
    report.lead.push(Block::Text(vec![Span::Link { to: "#errors of lpu (ε)".to_owned(), text: "errors".to_owned() }]));
    let page = report.to_html();
    let document = roxmltree::Document::parse(&page[page.find("<body>").unwrap()..page.find("</html>").unwrap()]);
    let document = document.unwrap();
    let links = document.descendants().filter_map(|node| node.attribute("href")?.strip_prefix('#'));
    for link in links.collect::<Vec<_>>() {
        assert!(document.descendants().any(|node| node.attribute("id") == Some(link)), "{link}");
    }
}

#[test]
fn nothing_comes_from_outside() {
    let page = page();
    for from_outside in ["http:", "https:", "<script", "@import", "<link", "url("] {
        assert!(!page.contains(from_outside), "{from_outside}");
    }
}
