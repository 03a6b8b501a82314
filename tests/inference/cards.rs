//! Model cards of exports and fine-tuned models.

use crate::common::{Folder, QUICK, articles, entailment};

/// Returns a card without the values that follow from the training.
fn without_figures(card: &str) -> String {
    let word = |word: &str| {
        if word.starts_with(|c: char| c.is_ascii_digit()) { "#".to_string() } else { word.to_string() }
    };
    card.lines().map(|line| line.split(' ').map(word).collect::<Vec<String>>().join(" ") + "\n").collect()
}

#[test]
fn pretraining_card_has_scores_and_text() {
    let folder = Folder::with_data();
    folder.write("held.txt", articles(4, 4));
    folder.ok("make-pretrain-data --config data --input held.txt --output held-out --random-seed 7");
    folder.ok(&format!("pretrain {QUICK} --steps 4 --eval-data held-out --allow-overlap --output run"));
    folder.ok("bert export run model --license mit --language en");
    let card = without_figures(&folder.text("model/README.md"));
    for text in [
        "license: mit\n",
        "language: \"en\"\n",
        "    metrics:\n    - type: loss\n      value: #\n",
        "name: \"masked LM accuracy, # % interval # to # # cases\"\n",
        "name: \"next-sentence accuracy, # % interval # to # # cases\"\n",
        "On the evaluation data held-out:\n",
        "| files | train.txt |\n",
        "model = BertForPreTraining.from_pretrained(\"model\")\n",
    ] {
        assert!(card.contains(text), "no {text}\n{card}");
    }
    assert!(!card.contains("not finished"), "{card}");
    for row in ["| commit |", "| command |", "| ranks | # |", "| hosts |", "| started |"] {
        assert!(card.contains(row), "no {row}\n{card}");
    }
    folder.refused("bert export run other --license 'my licence'", 2, "not an identifier");
    folder.refused("bert export model again --license mit", 2, "edit its README.md");
}

#[test]
fn card_without_next_sentence_training_claims_none() {
    let folder = Folder::with_data();
    folder.ok("make-pretrain-data --config data --nsp off --output single");
    let train = QUICK.replace("--data data", "--data single --eval-data single --allow-overlap");
    folder.ok(&format!("pretrain {train} --steps 2 --output run"));
    folder.ok("bert export run model");
    let card = folder.text("model/README.md");
    assert!(card.contains("pre-trained by masked LM.\n") && card.contains("BertForMaskedLM"), "{card}");
    assert!(!card.contains("next-sentence accuracy") && !card.contains("BertForPreTraining"), "{card}");
    assert!(card.contains("its next-sentence head, if any, has no meaning"), "{card}");
    assert!(card.contains("Licence: not stated."), "{card}");
    // The evaluation data is the training data.
    assert!(card.contains(" documents of single (100.0 %) are in single too"), "{card}");
}

#[test]
fn fine_tuned_model_has_a_card() {
    let folder = Folder::with_run();
    for (split, first) in [("train", 0), ("dev", 12)] {
        folder.write(&format!("glue/RTE/{split}.tsv"), entailment(first, 12));
    }
    let tune = "finetune --task rte --data glue --checkpoint run --max-seq-length 48 --num-train-epochs 1";
    folder.ok(&format!("{tune} --seeds 1-2 --output tuned"));
    let card = without_figures(&folder.text("tuned/model/README.md"));
    for text in [
        "pipeline_tag: text-classification\n",
        "This folder has a BERT fine-tuned on rte.\n",
        "model = BertForSequenceClassification.from_pretrained(\"model\")\n",
        "      type: own-data\n    metrics:\n",
        "# % interval of the mean # to # baseline # (the most frequent class of these examples)",
        "The folder has the model of the best seed",
        "| seeds | # # |\n",
    ] {
        assert!(card.contains(text), "no {text}\n{card}");
    }
    folder.ok("bert export tuned model --license apache-2.0");
    let exported = folder.text("model/README.md");
    assert!(exported.contains("license: apache-2.0\n") && exported.contains("| commit |"), "{exported}");
    folder.ok("bert export tuned other --name me/rte");
    assert!(folder.text("other/README.md").contains("from_pretrained(\"me/rte\")"));
    folder.ok(&format!("{tune} --random-init --freeze-encoder --seeds 1 --output fresh"));
    let fresh = folder.text("fresh/model/README.md");
    assert!(
        fresh.contains("| start | random weights in the shape of ")
            && fresh.contains("| trainable_layers | 0 |")
    );
    assert_eq!(folder.json("fresh/model/model_description.json")[0]["trained_positions"], 0);
    folder.ok(&format!("{tune} --adapter lora --seeds 1 --output adapter"));
    assert!(folder.text("adapter/model/README.md").contains("an adapter without its encoder"));
}
