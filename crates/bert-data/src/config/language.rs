//! Says which languages the sentence splitter knows.

/// Whether sentences of this language can be split.
#[must_use]
pub(crate) fn speaks(language: &str) -> bool {
    const OWN_RULES: &str =
        " am ar bg bn ca da de el en es fi fr gu hi hy it ja kk kn ml mr my nl pa pl pt ru sk ta te uk ";
    let known = !language.contains(' ') && OWN_RULES.contains(&format!(" {language} "));
    known || sentencex::languages::get_fallbacks(language).is_some()
}
