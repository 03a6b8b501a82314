//! Serializes the operator between processes: Ballista's codec with one additional plan node.

use std::sync::Arc;

use ballista_core::serde::BallistaPhysicalExtensionCodec;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};

use crate::operator::PartsExec;
use crate::work::Work;

/// First byte of an encoded Ballista node.
const BALLISTA: u8 = 0;
const PARTS: u8 = 1;

/// A codec that encodes [`PartsExec`] as JSON and leaves every other node to Ballista.
#[derive(Debug, Default)]
pub struct Codec {
    ballista: BallistaPhysicalExtensionCodec,
}

fn invalid(problem: impl std::fmt::Display) -> DataFusionError {
    DataFusionError::Execution(problem.to_string())
}

impl PhysicalExtensionCodec for Codec {
    fn try_decode(
        &self,
        buf: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        ctx: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match buf.split_first() {
            Some((&BALLISTA, rest)) => self.ballista.try_decode(rest, inputs, ctx, converter),
            Some((&PARTS, json)) => {
                let work = Work::parse(json).map_err(invalid)?;
                let [input] = inputs else { return Err(invalid("an operator of parts has one input")) };
                Ok(Arc::new(PartsExec::new(Arc::new(work), Arc::clone(input))))
            }
            _ => Err(invalid("a plan node of an unknown kind")),
        }
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buf: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        match node.downcast_ref::<PartsExec>() {
            Some(parts) => {
                buf.push(PARTS);
                serde_json::to_writer(buf, parts.work()).map_err(invalid)
            }
            None => {
                buf.push(BALLISTA);
                self.ballista.try_encode(node, buf, converter)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::physical_plan::displayable;
    use datafusion_proto::physical_plan::AsExecutionPlan;
    use datafusion_proto::protobuf::PhysicalPlanNode;

    use super::*;
    use crate::operator::plan;
    use crate::work::Stage;
    use bert_data::BuildConfig;

    fn sent(work: Work) -> Result<Arc<dyn ExecutionPlan>> {
        let codec = Codec::default();
        let mut bytes = Vec::new();
        PhysicalPlanNode::try_from_physical_plan(plan(work, 3)?, &codec)?.try_encode(&mut bytes)?;
        PhysicalPlanNode::try_decode(&bytes)?.try_into_physical_plan(&TaskContext::default(), &codec)
    }

    #[test]
    fn a_plan_arrives_as_it_was_sent() {
        let config = BuildConfig::new(["/in"], "/vocab.txt", "/out").with_dupe_factor(3);
        let work = Work::new(Stage::Shards, &config, 7);
        let arrived = sent(work.clone()).unwrap();
        assert_eq!(arrived.downcast_ref::<PartsExec>().unwrap().work(), &work);
        let shown = displayable(plan(work, 3).unwrap().as_ref()).indent(true).to_string();
        assert_eq!(displayable(arrived.as_ref()).indent(true).to_string(), shown);
    }

    #[test]
    fn a_plan_of_another_version_is_refused() {
        let work = Work::new(Stage::Tokenize, &BuildConfig::default(), 1);
        let error = sent(Work { program: "bert 0.0.1".to_owned(), ..work }).unwrap_err().to_string();
        assert!(error.contains("planned by bert 0.0.1, but this executor is bert"), "{error}");
    }
}
