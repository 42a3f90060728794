//! The style sheet of every report.

/// Colours as variables, so that dark is a matter of a few lines; wide tables scroll by themselves, so that the page
/// never does.
pub(super) const SHEET: &str = "
:root{--ground:#fff;--card:#f6f7f8;--ink:#22262b;--faint:#5f666d;--line:#dfe3e6;--link:#0b62a8;\
--good:#0b6b4a;--good-ground:#d8f2e6;--mixed:#7a5200;--mixed-ground:#fcecc6;--bad:#97221b;--bad-ground:#fbdcd8;\
--neutral:#4a5259;--neutral-ground:#e7eaed}
@media(prefers-color-scheme:dark){:root{--ground:#15181b;--card:#1d2125;--ink:#e6e8ea;--faint:#9aa2aa;--line:#343a40;\
--link:#6bb6f0;--good:#7fe0b8;--good-ground:#12392b;--mixed:#f2c766;--mixed-ground:#3d2f0c;--bad:#ff9d94;\
--bad-ground:#46191a;--neutral:#b8c0c7;--neutral-ground:#2b3137}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--ground);color:var(--ink);\
font:16px/1.55 system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}
main{max-width:1120px;margin:0 auto;padding:1.5rem 1.25rem 5rem}
h1{font-size:1.9rem;line-height:1.2;margin:.5rem 0 1rem}
h2{font-size:1.45rem;margin:3rem 0 .75rem;padding-bottom:.3rem;border-bottom:1px solid var(--line)}
h3{font-size:1.15rem;margin:2.5rem 0 .5rem}
h4{font-size:1rem;margin:1.5rem 0 .4rem}
p,main>ul,section>ul{max-width:46rem}
a{color:var(--link);text-decoration-thickness:.06em;text-underline-offset:.15em}
.here{visibility:hidden;text-decoration:none;font-weight:400;color:var(--faint)}
h2:hover .here,h3:hover .here,h4:hover .here,.here:focus{visibility:visible}
nav{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:1rem 1.25rem;margin:1.5rem 0}
nav h2{font-size:1rem;margin:0 0 .4rem;border:0;padding:0}
nav ul{margin:0;padding-left:1.1rem}
nav li{margin:.15rem 0}
.note{color:var(--faint);font-size:.92rem}
.warning{border-left:4px solid var(--mixed);background:var(--mixed-ground);\
padding:.6rem .9rem;border-radius:0 6px 6px 0}
code{font:.88em ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;\
background:var(--card);border-radius:4px;padding:.1em .3em}
.wide{overflow-x:auto;margin:.8rem 0 1.2rem}
table{border-collapse:collapse;font-size:.92rem;min-width:40%}
th,td{padding:.4rem .75rem;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}
th{font-weight:600;color:var(--faint);white-space:nowrap;border-bottom-width:2px}
tbody tr:hover{background:var(--card)}
.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.badge{display:inline-block;padding:.05rem .55rem;border-radius:999px;\
font-size:.82rem;font-weight:600;white-space:nowrap}
.badge.good{color:var(--good);background:var(--good-ground)}
.badge.mixed{color:var(--mixed);background:var(--mixed-ground)}
.badge.bad{color:var(--bad);background:var(--bad-ground)}
.badge.neutral{color:var(--neutral);background:var(--neutral-ground)}
figure{margin:1rem 0 1.2rem}
.picture{overflow-x:auto;border:1px solid var(--line);border-radius:8px;padding:.5rem}
.picture svg{display:block;max-width:100%;height:auto;min-width:min(100%,560px);margin:0 auto}
figcaption{color:var(--faint);font-size:.92rem;margin-top:.4rem;max-width:60rem}
details{margin:.6rem 0}
summary{cursor:pointer;color:var(--link)}
@media(max-width:640px){body{font-size:15px}main{padding:1rem .8rem 3rem}h1{font-size:1.5rem}\
th,td{padding:.35rem .5rem}\
.picture svg{min-width:560px}}
@media print{nav{break-after:page}.here{display:none}figure,table{break-inside:avoid}}
";
