//! Puts the remarks on input files into words.

use super::remarks::{Occurrences, Remark, Remarks};

impl Remarks {
    /// Iterates over the remarks as sentences.
    pub fn sentences(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(remark, seen)| sentence(*remark, seen))
    }
}

impl Occurrences {
    /// Returns the file or files in words.
    fn origin(&self) -> String {
        let first = self.first.escape_debug();
        match self.files {
            1 => format!("of {first}"),
            files => format!("of {files} files, {first} the first,"),
        }
    }

    /// Returns the files as the subject of a sentence, with its verb.
    fn are_read_as(&self, what: &str) -> String {
        let first = self.first.escape_debug();
        match self.files {
            1 => format!("{first} was read as {what}"),
            files => format!("{files} files, {first} the first, were read as {what}"),
        }
    }

    /// Returns the percentage of the count.
    fn percent(&self) -> String {
        format!("{:.0} %", 100.0 * self.count as f64 / self.all.max(1) as f64)
    }

    /// Returns the examples in words, with this text before them.
    fn examples(&self, before: &str, between: &str) -> String {
        let quoted: Vec<String> =
            self.examples.iter().map(|line| format!("\"{}\"", line.escape_debug())).collect();
        if quoted.is_empty() { String::new() } else { format!("{before}{}", quoted.join(between)) }
    }
}

fn sentence(remark: Remark, seen: &Occurrences) -> String {
    let files = seen.files;
    let count = seen.count;
    let first = seen.first.escape_debug();
    let origin = seen.origin();
    let percent = seen.percent();
    let lines = || seen.examples(", as in ", " and ");
    let broken = || seen.examples(", as between ", " and ");
    let left_out = |what| if count > 0 { format!("; {count} {what} were left out") } else { String::new() };
    match remark {
        Remark::NoText => format!("{files} input file(s) gave no text, {first} the first: not one token."),
        Remark::IgnoredBytes => {
            format!(
                "{count} byte(s) {origin} follow the compressed data and were ignored, as gzip and bzip2 do."
            )
        }
        Remark::CarriageReturns => format!(
            "{count} line(s) {origin} hold carriage returns (\\r) that end no line and were read as blanks; if they end lines, \
             convert them (tr '\\r' '\\n')."
        ),
        Remark::HalfSurrogates => format!(
            "{count} row(s) {origin} held half of a surrogate pair (as \"\\ud83d\"), which was replaced by U+FFFD."
        ),
        Remark::Tags => format!(
            "{percent} of the lines or rows {origin} have tags of markup{}, and the tags are text here; extract the text first \
             (trafilatura, pandoc -t plain).",
            lines()
        ),
        Remark::SentenceRules => format!(
            "{count} article(s) {origin} are in a language for which the sentence splitter has no rules; those of English were \
             used. --language selects those of a similar language."
        ),
        Remark::Table => format!(
            "{count} row(s) {origin} were read as a CSV or TSV table, by its column \"text\"; --text-column names another one."
        ),
        Remark::JoinedLines => format!(
            "the lines {origin} break inside sentences ({percent} of them{}) and were joined to paragraphs; blank lines end \
             documents. --line-breaks sentence reads each line as a sentence.",
            broken()
        ),
        Remark::JoinedBook => format!(
            "the lines {origin} break inside sentences ({percent} of them{}) and were joined to paragraphs; each file is one \
             document. --line-breaks sentence reads each line as a sentence and each paragraph as a document.",
            broken()
        ),
        Remark::BrokenLines => format!(
            "{percent} of the line breaks {origin} lie inside sentences{}, so lines are fragments of sentences here: \
             --line-breaks wrapped joins them.",
            broken()
        ),
        Remark::JoinedRows => format!(
            "{percent} of the rows {origin} have line breaks inside sentences{}, and their lines were joined; --line-breaks \
             sentence ends a sentence at each line break.",
            broken()
        ),
        Remark::Tabs => format!(
            "{percent} of the lines {origin} have tabs{}, and all columns are text here; if it is a table, give it the name \
             of one (.tsv) and its column with --text-column.",
            lines()
        ),
        Remark::Entities => format!(
            "{percent} of the lines or rows {origin} have entities of markup{}; convert them first (python3 -c 'import \
             html,sys; sys.stdout.writelines(map(html.unescape, sys.stdin))').",
            lines()
        ),
        Remark::LiteralBreaks => format!(
            "{percent} of the lines or rows {origin} have a backslash and n between words{}, which is text here; convert it to \
             line breaks first (sed 's/\\\\n/\\n/g').",
            lines()
        ),
        Remark::UnknownWords => format!(
            "{percent} of the lines or rows {origin} have <unk> for rare words{}, which becomes three tokens here; use the \
             original text (for WikiText the raw version).",
            lines()
        ),
        Remark::TwiceEncoded => format!(
            "{percent} of the lines or rows {origin} are UTF-8 that was read as Latin-1 and encoded again{}; mend them first \
             (ftfy).",
            lines()
        ),
        Remark::Decomposed => format!(
            "{percent} of the lines or rows {origin} have accents as separate characters (NFD){}; a vocabulary of other text \
             has them composed: convert the text (uconv -x any-nfc).",
            lines()
        ),
        Remark::ZeroWidthSpaces => {
            format!("{count} zero-width space(s) (U+200B) {origin} separate words and were read as blanks.")
        }
        Remark::Columns => format!(
            "{}: the words or the text of each sentence were read, the other columns were left out.",
            seen.are_read_as("a treebank with one token per line (CoNLL-U, CoNLL or vertical text)")
        ),
        Remark::Subtitles => format!(
            "{}: the cues were joined to sentences, numbers and time codes were left out; each file is one document.",
            seen.are_read_as("subtitles (SubRip or WebVTT)")
        ),
        Remark::Mail => format!(
            "{}: each mail is a document, without header, quotations and signature{}.",
            seen.are_read_as("mail"),
            left_out("mail(s) without plain text")
        ),
        Remark::Records => format!(
            "{}: title and abstract of each record are a document{}.",
            seen.are_read_as("records of MEDLINE or RIS"),
            left_out("record(s) without abstract")
        ),
        Remark::Verses => format!(
            "{}: each verse is a sentence and each chapter a document; the numbers were left out.",
            seen.are_read_as("a Bible with a number, a tab and a verse on each line")
        ),
        Remark::Delimited => format!(
            "{}: blank lines do not end documents there, and the separators were left out.",
            seen.are_read_as("documents between separators (<|endoftext|>)")
        ),
        Remark::PageHeads => {
            format!("{count} page number(s) and page head(s) {origin} were left out{}.", lines())
        }
        Remark::Unsegmented => format!(
            "{count} sentence(s) {origin} were cut by length, because no end of a sentence was found in them: their script or \
             language has no rules here. Put each sentence on its own line, or give a list of sentences for each row."
        ),
        Remark::Unseparated => format!(
            "{percent} of the lines or rows {origin} are in a script without blanks between words{}, and whole phrases are \
             words here: separate the words first, with blanks or U+200B.",
            lines()
        ),
        Remark::Fields => format!(
            "{percent} of the lines or rows {origin} have fields between marks{}, and all fields are text here; keep the one \
             with the text (awk -F ' *[+|$]+ *' '{{print $NF}}' for the last).",
            lines()
        ),
        Remark::Identifiers => format!(
            "{percent} of the lines or rows {origin} begin with an identifier or a number{}, which is text here; remove it (cut \
             -d' ' -f2- for one word).",
            lines()
        ),
        Remark::Rules => format!(
            "{count} line(s) {origin} are marks only{}, and each is a sentence here; if they separate documents, put blank lines \
             instead (sed 's/^[-_=~#]*$//').",
            lines()
        ),
        Remark::LongWords => format!(
            "{count} word(s) {origin} are longer than 200 characters and became [UNK]: if the script has no blanks between \
             words, separate the words first (with blanks or U+200B)."
        ),
    }
}
