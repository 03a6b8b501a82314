//! Reads SQuAD's files: paragraphs with questions and the positions of their answers.

use std::collections::HashSet;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use bert_tasks::{Answer, Class, Error, Question};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::lines::{ExampleFile, LabelUse, open_file};

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    version: Option<serde_json::Value>,
    data: Vec<Article>,
}

#[derive(Deserialize)]
struct Article {
    paragraphs: Vec<Paragraph>,
}

#[derive(Deserialize)]
struct Paragraph {
    context: String,
    qas: Vec<RawQuestion>,
}

#[derive(Deserialize)]
struct RawQuestion {
    #[serde(deserialize_with = "text_or_number")]
    id: String,
    question: String,
    #[serde(default)]
    answers: Vec<RawAnswer>,
    #[serde(default)]
    is_impossible: bool,
}

#[derive(Deserialize)]
struct RawAnswer {
    text: String,
    /// Position of the answer, counted in characters as in Python.
    answer_start: usize,
}

/// Reads an id, which is an integer in some data sets.
fn text_or_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    match serde_json::Value::deserialize(deserializer)? {
        serde_json::Value::String(text) => Ok(text),
        serde_json::Value::Number(number) if number.is_u64() || number.is_i64() => Ok(number.to_string()),
        _ => Err(D::Error::custom("an id is a text or a whole number")),
    }
}

/// The rules for a file of questions.
#[derive(Clone, Copy, Debug, Default)]
pub struct QuestionRules {
    /// The use of the answers.
    pub labels: LabelUse,
    /// Whether a question is left out if the text of an answer is not at `answer_start`. Otherwise such a question is
    /// an error.
    pub skip_misplaced: bool,
}

/// Reads a file of SQuAD 1.1 or 2.0, or of another data set in the same format.
///
/// # Errors
/// Fails when the file cannot be read, when it has a different form or no examples, when two questions have the same
/// id, when an answer is missing, or when the text of an answer is not at `answer_start`; an error in the form names
/// the line.
pub fn read_questions(path: &Path, rules: QuestionRules) -> Result<ExampleFile<Question>, Error> {
    let mut bytes = Vec::new();
    let result = open_file(path)?.read_to_end(&mut bytes);
    result.map_err(Error::io("read", path))?;
    let json = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&bytes);
    let file: File = serde_json::from_slice(json).map_err(|source| {
        let line = source.line() as u64;
        Error::data(format!(
            "{source}; expected the form of SQuAD: {{\"data\": [{{\"paragraphs\": [{{\"context\": TEXT, \"qas\": \
             [{{\"id\": ID, \"question\": TEXT, \"answers\": [{{\"text\": TEXT, \"answer_start\": \
             NUMBER}}]}}]}}]}}]}}"
        ))
        .at_line(path, line)
    })?;
    let version = file.version.map(|version| version.to_string()).unwrap_or_default();
    let is_version_2 = version.trim_start_matches(['"', 'v']).starts_with('2');
    let mut read = ExampleFile { examples: Vec::new(), without_label: 0, misplaced: 0 };
    let mut ids = HashSet::new();
    for Paragraph { context, qas } in file.data.into_iter().flat_map(|article| article.paragraphs) {
        let context: Arc<str> = context.into();
        // Byte offsets of the characters, and of the end.
        let offsets: Vec<usize> = context.char_indices().map(|(at, _)| at).chain([context.len()]).collect();
        for RawQuestion { id, question, answers, is_impossible } in qas {
            if !ids.insert(id.clone()) {
                return Err(Error::data(format!(
                    "two questions have the id {id}: answers are written by id, so one of them would be lost"
                ))
                .at(path));
            }
            let answer = |RawAnswer { text, answer_start }: RawAnswer| {
                let start = offsets.get(answer_start).copied().unwrap_or(context.len());
                if context[start..].starts_with(&text) {
                    Ok(Answer { text, start })
                } else {
                    let found: String = context[start..].chars().take(text.chars().count()).collect();
                    Err(Error::data(format!(
                        "question {id}: the text has {found:?} at character {answer_start}, not the answer {text:?}; \
                         `.skip_misplaced_answers` leaves such questions out"
                    ))
                    .at(path))
                }
            };
            let answers = match answers.into_iter().map(answer).collect::<Result<Vec<_>, _>>() {
                Err(_) if rules.skip_misplaced => {
                    read.misplaced += 1;
                    continue;
                }
                answers => answers?,
            };
            let is_impossible = is_impossible || (is_version_2 && answers.is_empty());
            let is_answered = is_impossible || !answers.is_empty() || !rules.labels.are_read();
            let answered = if is_answered {
                Ok(())
            } else {
                Err(Error::new(
                    Class::Unlabelled,
                    format!(
                        "question {id} has no answer (SQuAD 2.0 marks such questions with \"is_impossible\": true); \
                         `.skip_unlabelled` leaves such questions out"
                    ),
                ))
            };
            match rules.labels.unless_left_out(answered).map_err(|problem| problem.at(path))? {
                Some(()) => read.examples.push(Question {
                    id,
                    question,
                    context: context.clone(),
                    answers,
                    is_impossible,
                }),
                None => read.without_label += 1,
            }
        }
    }
    read.non_empty(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Vec<Question>, Error> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), json).unwrap();
        let rules = QuestionRules { labels: LabelUse::Required, skip_misplaced: false };
        read_questions(file.path(), rules).map(|file| file.examples)
    }

    fn with(qas: &str) -> String {
        format!(
            r#"{{"version":"1.1","data":[{{"paragraphs":[{{"context":"Zoë sah Köln.","qas":[{qas}]}}]}}]}}"#
        )
    }

    #[test]
    fn answer_starts_are_counted_in_characters() {
        let questions = read(&with(
            r#"{"id":"q","question":"Was?","answers":[{"text":"Köln","answer_start":8}]},
               {"id":"r","question":"Wer?","answers":[{"text":"Zoë","answer_start":0}]}"#,
        ));
        let questions = questions.unwrap();
        let starts: Vec<usize> = questions.iter().map(|question| question.answers[0].start).collect();
        assert_eq!(starts, [9, 0]);
        assert!(!questions[0].is_impossible && Arc::ptr_eq(&questions[0].context, &questions[1].context));
    }

    #[test]
    fn version_2_allows_questions_without_answers() {
        let impossible = r#"{"id":"q","question":"Wann?","answers":[],"is_impossible":true}"#;
        assert!(read(&with(impossible)).unwrap()[0].is_impossible);
        let questions = read(&with(r#"{"id":"q","question":"?","answers":[]}"#).replace("1.1", "v2.0"));
        assert!(questions.unwrap()[0].is_impossible);
    }

    #[test]
    fn an_answer_at_the_wrong_position_is_an_error() {
        for (start, found) in [(7, " Köl"), (900, "")] {
            let answer = format!(
                r#"{{"id":"q7","question":"?","answers":[{{"text":"Köln","answer_start":{start}}}]}}"#
            );
            let error = read(&with(&answer)).unwrap_err();
            let text = error.to_string();
            assert!(
                text.contains("question q7")
                    && text.contains("\"Köln\"")
                    && text.contains(&format!("{found:?}")),
                "{text}"
            );
            assert_eq!(error.exit_code(), 3);
        }
    }

    #[test]
    fn misplaced_answers_are_left_out_on_request() {
        let json = with(
            r#"{"id":"q","question":"Was?","answers":[{"text":"Köln","answer_start":8}]},
               {"id":"r","question":"Wer?","answers":[{"text":"Zoë","answer_start":1}]}"#,
        );
        let error = read(&json).unwrap_err().to_string();
        assert!(error.contains("question r") && error.contains("`.skip_misplaced_answers`"), "{error}");
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), json).unwrap();
        let rules = QuestionRules { labels: LabelUse::Required, skip_misplaced: true };
        let found = read_questions(file.path(), rules).unwrap();
        assert_eq!((found.examples.len(), found.examples[0].id.as_str(), found.misplaced), (1, "q", 1));
    }

    #[test]
    fn equal_ids_are_refused_and_numbers_accepted() {
        let question = |id: &str| {
            format!(r#"{{"id":{id},"question":"Wer?","answers":[{{"text":"Zoë","answer_start":0}}]}}"#)
        };
        let error = read(&with(&format!("{},{}", question("\"7\""), question("7")))).unwrap_err();
        assert!(error.to_string().contains("two questions have the id 7"), "{error}");
        assert_eq!(error.exit_code(), 3);
        assert_eq!(read(&with(&question("40000"))).unwrap()[0].id, "40000");
        assert!(read(&with(&question("[1]"))).unwrap_err().to_string().contains("\"paragraphs\""));
    }

    #[test]
    fn version_1_needs_answers_except_for_prediction() {
        let json = with(r#"{"id":"q9","question":"?","answers":[]}"#);
        let error = read(&json).unwrap_err();
        assert!(error.to_string().contains("question q9 has no answer"), "{error}");
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), json).unwrap();
        let read = |labels| read_questions(file.path(), QuestionRules { labels, skip_misplaced: false });
        let questions = read(LabelUse::Ignored).unwrap().examples;
        assert!(!questions[0].is_impossible && questions[0].answers.is_empty());
        let error = read(LabelUse::LeftOut).unwrap_err().to_string();
        assert!(error.ends_with("all 1 examples of this file are left out: they have no label, or an answer that is not at its start"), "{error}");
    }

    #[test]
    fn invalid_files_are_errors_with_a_line() {
        let error = read("{\"data\":[\n {\"paragraphs\": 7}]}").unwrap_err();
        assert!(error.to_string().contains(":2:"), "{error}");
        assert_eq!(error.exit_code(), 3);
        let folder = tempfile::tempdir().unwrap();
        assert!(
            read_questions(folder.path(), QuestionRules::default())
                .unwrap_err()
                .to_string()
                .ends_with(": this is not a regular file")
        );
        assert!(read(r#"{"data":[]}"#).unwrap_err().to_string().ends_with(": this file has no examples"));
    }
}
