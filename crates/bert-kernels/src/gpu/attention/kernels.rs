//! The forward kernel and the backward kernel of attention.

use cubecl::ir::ElemType;
use cubecl::prelude::*;

use super::blocks::{
    Head, column_sum, factors_block, lane_vector, load_key_bias, logits, multiply_rows, scores_block,
};
use super::plan::{HEAD, Plan};
use super::sums::Sums;
use crate::gpu::dropout::{Mask, factors};
use crate::gpu::lanes::{over_lanes, vector_sum};

#[expect(clippy::too_many_arguments, reason = "three tensors in, two out, and the mask")]
#[cube(launch)]
pub(super) fn forward_kernel<F: Float, N: Size>(
    projected: &[Vector<F, N>],
    biases: &[Vector<f32, N>],
    key_bias: &[f32],
    context: &mut [Vector<F, N>],
    log_sums: &mut [f32],
    scale: f32,
    mask: Mask,
    #[comptime] plan: Plan,
    #[define(F)] _element: ElemType,
) {
    let keys = comptime!(plan.blocks.keys);
    let queries = comptime!(plan.blocks.queries);
    let head = Head::new(key_bias, plan);
    let mut query = factors_block::<F, N>(queries, HEAD, plan);
    let mut key = factors_block::<F, N>(keys, HEAD, plan);
    let mut value = factors_block::<F, N>(keys, HEAD, plan);
    let mut probabilities = factors_block::<F, N>(queries, keys, plan);
    let mut row_bias = Shared::<[Vector<f32, N>]>::new_slice(comptime!(keys / plan.vector));
    let mut scores = scores_block::<N>(plan);
    let first = CUBE_POS_X as usize * queries;
    let row = UNIT_POS_Y as usize;
    head.projected(0usize, first, queries).load::<F, N>(projected, biases, &mut query);
    let mut maximum = f32::new(-3.4e38);
    let mut sum = 0.0f32;
    let blocks = head.seq.div_ceil(keys);
    for block in 0..blocks {
        sync_cube();
        head.projected(1usize, block * keys, keys).load::<F, N>(projected, biases, &mut key);
        load_key_bias::<N>(key_bias, &mut row_bias, &head, block * keys);
        if blocks == 1 {
            head.projected(2usize, 0usize.runtime(), keys).load::<F, N>(projected, biases, &mut value);
        }
        sync_cube();
        multiply_rows::<F, N>(&query, &key, &mut scores, plan);
        let mut highest = maximum;
        #[unroll]
        for number in 0..plan.lanes.vectors {
            let score = logits::<N>(&scores, &row_bias, scale, number, plan);
            #[unroll]
            for j in 0..N::value() {
                highest = max(highest, score.extract(j));
            }
        }
        let highest = over_lanes(highest, true, plan.lanes);
        let mut terms = 0.0f32;
        #[unroll]
        for number in 0..plan.lanes.vectors {
            let score = logits::<N>(&scores, &row_bias, scale, number, plan);
            terms += vector_sum((score - Vector::new(highest)).exp());
        }
        sum = sum * (maximum - highest).exp() + over_lanes(terms, false, plan.lanes);
        maximum = highest;
    }
    let log_sum = maximum + sum.ln();
    if UNIT_POS_X == 0 && first + row < head.seq {
        log_sums[head.row(first + row)] = log_sum;
    }
    let cells = head.row(first + row) * head.seq;
    let mut sums = Sums::new(plan.workers, comptime!([queries, HEAD]), plan.blocks.units);
    for block in 0..blocks {
        if blocks > 1 {
            sync_cube();
            head.projected(1usize, block * keys, keys).load::<F, N>(projected, biases, &mut key);
            head.projected(2usize, block * keys, keys).load::<F, N>(projected, biases, &mut value);
            load_key_bias::<N>(key_bias, &mut row_bias, &head, block * keys);
            sync_cube();
            multiply_rows::<F, N>(&query, &key, &mut scores, plan);
        }
        #[unroll]
        for number in 0..plan.lanes.vectors {
            let score = logits::<N>(&scores, &row_bias, scale, number, plan);
            let i = lane_vector(number, plan);
            let kept = factors::<N>(&mask, cells + block * keys + i * N::value());
            let p = (score - Vector::new(log_sum)).exp() * kept;
            probabilities[row * comptime!(plan.stride(keys) / plan.vector) + i] = Vector::cast_from(p);
        }
        sync_cube();
        sums.add::<F, N>(&probabilities, &value, comptime!(plan.for_queries()));
    }
    sums.store::<N>(&mut scores, 0usize.runtime(), queries, comptime!(plan.row()));
    sync_cube();
    head.context(first).write::<F, N>(&scores, context);
}

#[expect(clippy::too_many_arguments, reason = "six tensors in, three out, and the mask")]
#[cube(launch)]
pub(super) fn backward_kernel<F: Float, N: Size>(
    projected: &[Vector<F, N>],
    biases: &[Vector<f32, N>],
    key_bias: &[f32],
    context: &[Vector<F, N>],
    gradient: &[Vector<F, N>],
    log_sums: &[f32],
    joined: &mut [Vector<F, N>],
    parts: &mut [Vector<f32, N>],
    sums: &mut [Vector<f32, N>],
    scale: f32,
    mask: Mask,
    #[comptime] plan: Plan,
    #[define(F)] _element: ElemType,
) {
    let keys = comptime!(plan.blocks.keys);
    let queries = comptime!(plan.blocks.queries);
    let units = comptime!(plan.blocks.units);
    let vectors = comptime!(plan.lanes.vectors);
    let columns = comptime!(HEAD / plan.vector);
    let head = Head::new(key_bias, plan);
    let mut query = factors_block::<F, N>(queries, HEAD, plan);
    let mut d_context = factors_block::<F, N>(queries, HEAD, plan);
    let mut key = factors_block::<F, N>(keys, HEAD, plan);
    let mut value = factors_block::<F, N>(keys, HEAD, plan);
    let mut probabilities = factors_block::<F, N>(queries, keys, plan);
    let mut d_scores = factors_block::<F, N>(queries, keys, plan);
    let mut row_bias = Shared::<[Vector<f32, N>]>::new_slice(comptime!(keys / plan.vector));
    let mut scores = scores_block::<N>(plan);
    let row = UNIT_POS_Y as usize;
    let place = row * comptime!(plan.stride(keys) / plan.vector);
    let mut column_sums = Array::<Vector<f32, N>>::new(3usize);
    #[unroll]
    for part in 0..3 {
        column_sums[part] = Vector::new(0.0);
    }
    let blocks = head.seq.div_ceil(keys);
    for block in 0..blocks {
        sync_cube();
        head.projected(1usize, block * keys, keys).load::<F, N>(projected, biases, &mut key);
        head.projected(2usize, block * keys, keys).load::<F, N>(projected, biases, &mut value);
        load_key_bias::<N>(key_bias, &mut row_bias, &head, block * keys);
        let mut d_key = Sums::new(plan.workers, comptime!([keys, HEAD]), units);
        let mut d_value = Sums::new(plan.workers, comptime!([keys, HEAD]), units);
        for query_block in 0..head.seq.div_ceil(queries) {
            let first = query_block * queries;
            let rows = head.context(first);
            let is_query = row < rows.count;
            sync_cube();
            head.projected(0usize, first, queries).load::<F, N>(projected, biases, &mut query);
            rows.load::<F, N>(gradient, biases, &mut d_context);
            let mut delta = 0.0f32;
            let mut log_sum = 0.0f32;
            if is_query {
                log_sum = log_sums[head.row(first + row)];
                let mut column = UNIT_POS_X as usize;
                while column < columns {
                    let i = rows.first + row * rows.step + column;
                    delta +=
                        vector_sum(Vector::<f32, N>::cast_from(context[i]) * Vector::cast_from(gradient[i]));
                    column += plan.lanes.count as usize;
                }
            }
            let delta = over_lanes(delta, false, plan.lanes);
            sync_cube();
            multiply_rows::<F, N>(&query, &key, &mut scores, plan);
            let cells = head.row(first + row) * head.seq + block * keys;
            let mut p = Array::<Vector<f32, N>>::new(vectors);
            let mut kept = Array::<Vector<f32, N>>::new(vectors);
            #[unroll]
            for number in 0..vectors {
                let score = logits::<N>(&scores, &row_bias, scale, number, plan);
                let i = lane_vector(number, plan);
                p[number] = (score - Vector::new(log_sum)).exp();
                kept[number] = factors::<N>(&mask, cells + i * N::value());
                probabilities[place + i] = Vector::cast_from(p[number] * kept[number]);
            }
            sync_cube();
            multiply_rows::<F, N>(&d_context, &value, &mut scores, plan);
            #[unroll]
            for number in 0..vectors {
                let i = lane_vector(number, plan);
                let d_p = scores[row * comptime!(plan.row() / plan.vector) + i] * kept[number];
                let d_score = p[number] * (d_p - Vector::new(delta)) * Vector::new(scale);
                d_scores[place + i] = Vector::cast_from(d_score);
            }
            sync_cube();
            d_value.add::<F, N>(&probabilities, &d_context, comptime!(plan.for_keys()));
            d_key.add::<F, N>(&d_scores, &query, comptime!(plan.for_keys()));
            let mut d_query = Sums::new(plan.workers, comptime!([queries, HEAD]), units);
            d_query.add::<F, N>(&d_scores, &key, comptime!(plan.for_queries()));
            d_query.store::<N>(&mut scores, 0usize.runtime(), queries, comptime!(plan.row()));
            sync_cube();
            if blocks > 1 {
                rows.add_part::<N>(&mut scores, parts, block == 0);
            }
            if block + 1 == blocks {
                head.projected(0usize, first, queries).write::<F, N>(&scores, joined);
                column_sums[0] += column_sum::<N>(&scores, plan);
            }
        }
        #[unroll]
        for part in 1..3 {
            for chunk in 0..comptime!(keys / queries) {
                sync_cube();
                if comptime!(part == 1) {
                    d_key.store::<N>(&mut scores, chunk * queries, queries, comptime!(plan.row()));
                } else {
                    d_value.store::<N>(&mut scores, chunk * queries, queries, comptime!(plan.row()));
                }
                sync_cube();
                let rows = head.projected(part, block * keys + chunk * queries, queries);
                rows.write::<F, N>(&scores, joined);
                column_sums[part] += column_sum::<N>(&scores, plan);
            }
        }
    }
    if (UNIT_POS as usize) < columns {
        #[unroll]
        for part in 0..3 {
            let place = (head.batch * 3 + part) * head.heads + head.number;
            sums[place * columns + UNIT_POS as usize] = column_sums[part];
        }
    }
}
