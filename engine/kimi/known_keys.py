"""Keys of config.json that have a known meaning, or are known to have none; others are told about."""

from __future__ import annotations

DSA_SPELLINGS = (
    ("index_n_heads", "n_heads", "num_heads", "index_num_heads"),
    ("index_head_dim", "head_dim"),
    ("index_topk", "topk", "top_k", "index_top_k"),
)
"""Heads, head width and selection of the sparse-attention indexer; its key names are not settled."""

_TEXT = """
_name_or_path activation_situ_beta activation_situ_linear_beta add_cross_attention architectures
attention_bias attention_dropout attn_res_block_size auto_map bad_words_ids begin_suppress_tokens
bos_token_id chunk_size_feed_forward cross_attention_hidden_size decoder_start_token_id
diversity_penalty do_sample dsa_config dtype early_stopping encoder_no_repeat_ngram_size eos_token_id
exponential_decay_length_penalty finetuning_task first_k_dense_replace forced_bos_token_id
forced_eos_token_id gate_lower_bound head_dim hidden_act hidden_size id2label ignore_index
initializer_range intermediate_size is_decoder is_encoder_decoder kv_lora_rank label2id
latent_moe_use_norm length_penalty linear_attn_config max_length max_position_embeddings min_length
mla_use_nope mla_use_output_gate model_max_length model_type moe_intermediate_size moe_layer_freq
moe_renormalize moe_router_activation_func no_repeat_ngram_size num_attention_heads num_beam_groups
num_beams num_expert_group num_experts num_experts_per_tok num_experts_per_token num_hidden_layers
num_key_value_heads num_nextn_predict_layers num_return_sequences num_shared_experts output_attentions
output_hidden_states output_scores pad_token_id prefix problem_type pruned_heads q_lora_rank
qk_nope_head_dim qk_rope_head_dim quantization_config remove_invalid_values repetition_penalty
return_dict return_dict_in_generate rms_norm_eps rope_scaling rope_theta routed_expert_hidden_size
routed_scaling_factor sep_token_id suppress_tokens task_specific_params temperature tf_legacy_loss
tie_encoder_decoder tie_word_embeddings tokenizer_class top_k top_p topk_group topk_method torch_dtype
torchscript transformers_version typical_p use_bfloat16 use_cache use_full_rank_gate use_grouped_topk
v_head_dim vision_config vocab_size
"""
_TOP = "text_config image_placeholder media_placeholder_token_id use_unified_vision_chunk"

KNOWN = frozenset(_TEXT.split())
"""In the text config."""
KNOWN_TOP = KNOWN | frozenset(_TOP.split())
"""Around a text_config."""
