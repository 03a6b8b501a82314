//! Sums of gradients, in an order that does not depend on threads or ranks.

pub(crate) mod gradient_sum;
