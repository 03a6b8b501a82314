//! The settings of a fine-tuning that follow from the size of the model.

use serde_json::json;

use crate::finetuning::tasks::with_entailment;

const LINE: &str =
    "finetune --task rte --data glue --checkpoint run --max-seq-length 48 --train-batch-size 8";

#[test]
fn chosen_settings_are_printed_and_reported() {
    let folder = with_entailment();
    let ended = folder.ok(&format!("{LINE} --num-train-epochs 1 --output tuned"));
    assert!(ended.stderr.contains("learning rate 5e-4 (2 layers of 16)\n"), "{}", ended.stderr);
    let report = &folder.json("tuned/report.json")[0];
    assert_eq!(
        (&report["resolved"]["learning_rate"], &report["resolved"]["precision"]),
        (&json!(0.0005), &json!("f32"))
    );
    assert_eq!(
        (&report["config"]["learning_rate"], &report["defaults"][0]["value"]),
        (&json!(null), &json!("5e-4"))
    );

    let frozen = folder.ok(&format!("{LINE} --num-train-epochs 1 --freeze-encoder --output frozen"));
    assert!(frozen.stderr.contains("learning rate 1e-3 (frozen encoder)\n"), "{}", frozen.stderr);
    folder.ok(&format!("{LINE} --recipe reference --num-train-epochs 1 --output reference"));
    let report = &folder.json("reference/report.json")[0];
    let values = (&report["resolved"]["learning_rate"], &report["config"]["adam_bias_correction"]);
    assert_eq!(values, (&json!(5e-5), &json!(false)));
    folder.refused(&format!("{LINE} --recipe laptop --output no"), 2, "has no options of finetune");
}
