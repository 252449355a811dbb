#include "costmodel/model/import/hugging_face.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "costmodel/base/input_error.h"
#include "costmodel/model/model.h"
#include "costmodel/model/model_costs.h"
#include "costmodel/model/model_name.h"
#include "tests/bad_files.h"

namespace meshwright {
namespace {

using nlohmann::json;

std::int64_t parameters(const std::string& config) {
  return count_parameters(
             make_model(read_hugging_face(JsonInput::parse(config, "c.json"), "model")))
      .total;
}

void check_config_refused(const std::string& config, const std::string& message) {
  CAPTURE(message);
  CHECK_THROWS_WITH(parameters(config), message);
}

// A llama with every size different; `more` is added to it.
std::string llama(const std::string& more = "") {
  return R"({"model_type": "llama", "vocab_size": 11, "hidden_size": 24, "intermediate_size": 40,
             "num_hidden_layers": 3, "num_attention_heads": 4)" +
         more + "}";
}

}  // namespace

TEST_CASE("the class that a file names decides what counts") {
  const std::int64_t causal = parameters(llama());
  CHECK(parameters(llama(R"(, "architectures": ["LlamaForCausalLM"])")) == causal);
  CHECK(parameters(llama(R"(, "architectures": ["LlamaModel"])")) == causal - 11 * 24);
  CHECK(parameters(llama(R"(, "tie_word_embeddings": true)")) == causal - 11 * 24);
  // Biases: q, k, v, o of 24 and gate, up of 40, down of 24, in three layers.
  CHECK(parameters(llama(R"(, "attention_bias": true)")) == causal + 3 * 4 * 24);
  CHECK(parameters(llama(R"(, "mlp_bias": true)")) == causal + 3 * (2 * 40 + 24));
  // Half the key and value heads: two projections of 24 x 12 less a layer.
  CHECK(parameters(llama(R"(, "num_key_value_heads": 2)")) == causal - 3 * 2 * 24 * 12);
}

// Published counts of models whose config holds no surprise.
TEST_CASE("counts of further well-known models are the published ones") {
  const auto count = [](const char* preset) {
    return count_parameters(make_model(read_model(preset, MESHWRIGHT_DATA))).total;
  };
  CHECK(count("qwen2.5-72b") == 72'706'203'648);
  CHECK(count("llama2-13b") == 13'015'864'320);
  CHECK(count("llama3.2-3b") == 3'212'749'824);
  CHECK(count("gemma-7b") == 8'537'680'896);
  CHECK(count("opt-350m") == 331'196'416);
  CHECK(count("bert-large") == 335'174'458);
  CHECK(count("deepseek-v2") == 235'741'434'880);
  CHECK(count("deepseek-v2-lite") == 15'706'484'224);
  CHECK(count("t5-11b") == 11'307'321'344);
  // 12 L h^2 + 13 L h in the layers, embeddings and the last norm.
  CHECK(count("gpt-1t") ==
        128ll * (12ll * 25600 * 25600 + 13 * 25600) + (51200 + 2048 + 2) * 25600ll);
}

TEST_CASE("of a multimodal file the text model is read, with its class's defaults") {
  const OpGraph graph = read_hugging_face(
      JsonInput::parse(
          R"({"model_type": "llava", "architectures": ["LlavaForConditionalGeneration"],
                           "text_config": {"model_type": "llama", "vocab_size": 32064},
                           "vision_config": {"hidden_size": 1024}})",
          "c.json"),
      "llava");
  // Llama-2-7b with 64 more tokens, embedded and predicted.
  CHECK(count_parameters(make_model(graph)).total == 6'738'415'616 + 2 * 64 * 4096);
  CHECK(graph.notes ==
        std::vector<std::string>{"only the text model is counted: the file's text_config"});
}

// Transformers 5 writes one object of what transformers 4 wrote side by side.
TEST_CASE("how positions turn is read as either version of transformers writes it") {
  const auto graph = [](const std::string& config) {
    return read_hugging_face(JsonInput::parse(config, "c.json"), "model");
  };
  const std::string scaling =
      R"("rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
         "original_max_position_embeddings": 64)";
  const OpGraph before = graph(llama(R"(, "rope_theta": 5e5, "rope_scaling": {)" + scaling + "}"));
  CHECK(graph(llama(R"(, "rope_parameters": {"rope_theta": 5e5, )" + scaling + "}")) == before);
  CHECK_FALSE(graph(llama(R"(, "rope_parameters": {"rope_theta": 4e5, )" + scaling + "}")) ==
              before);
  CHECK_FALSE(graph(llama()) == before);

  const auto neox = [](const std::string& more) {
    return R"({"model_type": "gpt_neox", "vocab_size": 11, "hidden_size": 24,
               "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 2, )" +
           more + "}";
  };
  CHECK(graph(neox(R"("rope_parameters": {"rope_type": "default", "rope_theta": 5e5,
                      "partial_rotary_factor": 0.5})")) ==
        graph(neox(R"("rotary_emb_base": 5e5, "rotary_pct": 0.5)")));
}

// Published counts; the sums say what of.
TEST_CASE("families whose layers are not llama's are counted to the last weight") {
  const auto sizes = [](const char* family, std::int64_t vocabulary, std::int64_t hidden,
                        std::int64_t ffn, std::int64_t layers, std::int64_t heads,
                        std::int64_t kv_heads, const std::string& more) {
    return parameters(fmt::format(
        R"({{"model_type": "{}", "vocab_size": {}, "hidden_size": {}, "intermediate_size": {},
             "num_hidden_layers": {}, "num_attention_heads": {}, "num_key_value_heads": {}{}}})",
        family, vocabulary, hidden, ffn, layers, heads, kv_heads, more));
  };
  // OLMo-2-1124-7B: two norms of a layer, and one each of all queries and of all keys.
  CHECK(sizes("olmo2", 100352, 4096, 11008, 32, 32, 32, "") ==
        2ll * 100352 * 4096 + 32ll * (4 * 4096 * 4096 + 3 * 4096 * 11008 + 4 * 4096) + 4096);
  CHECK(sizes("olmo2", 100352, 4096, 11008, 32, 32, 32, "") == 7'298'617'344);
  // GLM-4-9B-0414: four norms of a layer, biases of queries, keys and values.
  CHECK(sizes("glm4", 151552, 4096, 13696, 40, 32, 2, R"(, "head_dim": 128)") ==
        2ll * 151552 * 4096 +
            40ll *
                (2 * 4096 * 4096 + 2 * 256 * 4096 + 4096 + 2 * 256 + 3 * 4096 * 13696 + 4 * 4096) +
            4096);
  CHECK(sizes("glm4", 151552, 4096, 13696, 40, 32, 2, R"(, "head_dim": 128)") == 9'400'279'040);
  CHECK(sizes("seed_oss", 155136, 5120, 27648, 64, 80, 8, R"(, "head_dim": 128)") ==
        36'151'104'512);
  // granite-3.1-8b: its multipliers are no weights.
  CHECK(sizes("granite", 49155, 4096, 12800, 40, 32, 8,
              R"(, "tie_word_embeddings": true, "embedding_multiplier": 12,
                  "residual_multiplier": 0.22, "attention_multiplier": 0.0078125,
                  "logits_scaling": 16)") == 8'170'848'256);
  // GLM-4.5-Air: 45 layers of 128 experts, a shared one and a router, and a dense layer. Its file
  // counts 128 numbers a router more, which correct its choices and are not trained.
  CHECK(sizes("glm4_moe", 151552, 4096, 10944, 46, 96, 8,
              R"(, "head_dim": 128, "attention_bias": true, "n_routed_experts": 128,
                  "num_experts_per_tok": 8, "moe_intermediate_size": 1408, "n_shared_experts": 1,
                  "first_k_dense_replace": 1)") == 106'852'251'264 - 45 * 128);
}

TEST_CASE("norms and scales stand where the family has them") {
  const auto ops = [](const std::string& family, const std::string& more) {
    std::string names;
    const OpGraph graph =
        read_hugging_face(JsonInput::parse(R"({"model_type": ")" + family +
                                               R"(", "vocab_size": 11, "hidden_size": 24,
            "intermediate_size": 40, "num_hidden_layers": 1, "num_attention_heads": 4,
            "num_key_value_heads": 2)" + more + "}",
                                           "c.json"),
                          "model");
    for (const GraphOp& op : graph.ops) {
      const std::string layer = "layers.0.";
      if (op.name.starts_with(layer)) names += op.name.substr(layer.size()) + " ";
      if (op.kind == OpKind::Scale && !op.name.starts_with(layer)) names += op.name + " ";
    }
    return names;
  };
  CHECK(ops("olmo2", "") ==
        "attention.q attention.k attention.v attention.q_norm attention.k_norm attention.q_rope "
        "attention.k_rope attention.core attention.output attention.norm attention.add "
        "ffn.up ffn.gate ffn.activation ffn.down ffn.norm ffn.add ");
  CHECK(ops("glm4", R"(, "head_dim": 6)") ==
        "attention.norm attention.q attention.k attention.v attention.q_rope attention.k_rope "
        "attention.core attention.output attention.end_norm attention.add "
        "ffn.norm ffn.up ffn.gate ffn.activation ffn.down ffn.end_norm ffn.add ");
  CHECK(ops("granite", R"(, "embedding_multiplier": 12, "residual_multiplier": 0.5,
                            "logits_scaling": 16)") ==
        "embedding.scale attention.norm attention.q attention.k attention.v attention.q_rope "
        "attention.k_rope attention.core attention.output attention.scale attention.add "
        "ffn.norm ffn.up ffn.gate ffn.activation ffn.down ffn.scale ffn.add head.scale ");
  check_config_refused(R"({"model_type": "granite", "vocab_size": 11, "hidden_size": 24,
                    "intermediate_size": 40, "num_hidden_layers": 1, "num_attention_heads": 4,
                    "residual_multiplier": 0})",
                       "c.json: residual_multiplier: expected a number above 0, found 0");
}

TEST_CASE("a family by another name is the same") {
  const auto graph = [](const std::string& family) {
    return read_hugging_face(
        JsonInput::parse(R"({"model_type": ")" + family +
                             R"(", "architectures": ["DeepseekV3ForCausalLM"], "vocab_size": 11,
             "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2,
             "num_attention_heads": 4, "kv_lora_rank": 6, "qk_nope_head_dim": 4,
             "qk_rope_head_dim": 2, "v_head_dim": 4, "n_routed_experts": 8,
             "num_experts_per_tok": 2, "moe_intermediate_size": 8, "first_k_dense_replace": 1})",
                         "c.json"),
        "model");
  };
  CHECK(graph("kimi_k2") == graph("deepseek_v3"));
}

TEST_CASE("an unknown family, a missing or a contradictory field is named") {
  check_config_refused(
      R"({"model_type": "mamba"})",
      "c.json: model_type: expected a supported family (gpt2, gpt_neox, opt, bloom, "
      "llama, mistral, qwen2, qwen3, gemma, phi3, olmo2, granite, seed_oss, glm4, mixtral, "
      "qwen2_moe, qwen3_moe, deepseek_v2, deepseek_v3, kimi_k2, glm4_moe, bert, roberta, vit, t5), "
      "found \"mamba\"");
  check_config_refused("{}", "c.json: the field \"model_type\" is missing");
  check_config_refused("[]", "c.json: expected an object, found a list of 0 elements");
  check_config_refused(R"({"model_type": "gpt2", "vocab_size": 10})",
                       "c.json: the field \"n_embd\" is missing");
  check_config_refused(llama(R"(, "architectures": ["LlamaForTokenClassification"])"),
                       "c.json: architectures[0]: expected LlamaForCausalLM or LlamaModel, found "
                       "\"LlamaForTokenClassification\"");
  check_config_refused(llama(R"(, "num_key_value_heads": 3)"),
                       "c.json: num_key_value_heads: 4 heads cannot be divided among 3");
  check_config_refused(llama(R"(, "head_dim": -1)"),
                       "c.json: head_dim: expected a whole number from 1 to 2147483648, found -1");
  check_config_refused(llama(R"(, "rms_norm_eps": "small")"),
                       "c.json: rms_norm_eps: expected a number, found \"small\"");
  check_config_refused(llama(R"(, "hidden_act": "mish")"),
                       "c.json: hidden_act: expected one of gelu, gelu_new, gelu_pytorch_tanh, "
                       "gelu_fast, silu, swish, relu, tanh, sigmoid, found \"mish\"");
  check_config_refused(
      llama(R"(, "attention_dropout": 1)"),
      "c.json: attention_dropout: expected a probability of at least 0 and below 1, "
      "found 1");
  check_config_refused(R"({"model_type": "gpt2", "vocab_size": 10, "n_embd": 10, "n_layer": 1,
                    "n_head": 3, "n_positions": 4})",
                       "c.json: n_head: 10 entries cannot be divided among 3 heads");
  check_config_refused(R"({"model_type": "mixtral", "vocab_size": 11, "hidden_size": 24,
                    "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4,
                    "num_key_value_heads": 4, "num_local_experts": 2, "num_experts_per_tok": 3})",
                       "c.json: num_experts_per_tok: 3 experts cannot be chosen from 2");
  check_config_refused(R"({"model_type": "vit", "hidden_size": 24, "num_hidden_layers": 1,
                    "num_attention_heads": 4, "intermediate_size": 40, "image_size": 225})",
                       "c.json: patch_size: an image of 225 cannot be cut into patches of 16");
}

TEST_CASE("a config cannot ask for what no model has") {
  check_config_refused(
      R"({"model_type": "llama", "vocab_size": 11, "hidden_size": 24,
                    "intermediate_size": 40, "num_hidden_layers": 1001, "num_attention_heads": 4})",
      "c.json: num_hidden_layers: expected a whole number from 1 to 1000, found 1001");
  check_config_refused(
      R"({"model_type": "phi3", "vocab_size": 11, "hidden_size": 24,
                    "intermediate_size": 40, "num_hidden_layers": 1, "num_attention_heads": 4,
                    "partial_rotary_factor": 1e300})",
      "c.json: partial_rotary_factor: expected a number from 0 to 1, found 1e+300");
  check_config_refused(R"({"model_type": "qwen3_moe", "vocab_size": 11, "hidden_size": 24,
                    "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4,
                    "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8,
                    "mlp_only_layers": [2]})",
                       "c.json: mlp_only_layers[0]: expected a whole number from 0 to 1, found 2");
  check_config_refused(
      R"({"model_type": "roberta", "vocab_size": 11, "hidden_size": 24,
                    "intermediate_size": 40, "num_hidden_layers": 1, "num_attention_heads": 4,
                    "max_position_embeddings": 2})",
      "c.json: max_position_embeddings: 2 rows are reserved, so more are needed, found "
      "2");
  check_config_refused(R"({"model_type": "vit", "hidden_size": 24, "num_hidden_layers": 1,
                    "num_attention_heads": 4, "intermediate_size": 40, "id2label": {}})",
                       "c.json: id2label: names no class");
  check_config_refused(R"({"model_type": "vit", "hidden_size": 24, "num_hidden_layers": 1,
                    "num_attention_heads": 4, "intermediate_size": 40, "image_size": 2000000000,
                    "patch_size": 1})",
                       "c.json: dimension patches: expected a size from 1 to 1099511627776, found "
                       "4000000000000000000");
  check_config_refused(
      R"({"model_type": "t5", "vocab_size": 11, "d_model": 24, "d_kv": 6, "num_heads": 4,
                    "d_ff": 40, "num_layers": 1, "feed_forward_proj": "gated\u0007"})",
      "c.json: feed_forward_proj: expected relu or gated-gelu, found gated\\x07");
  json deepseek =
      json::parse(read_text_file(MESHWRIGHT_TEST_DATA "/tiny_moe/tiny-deepseek_v3.json", 1_MiB));
  deepseek["topk_group"] = deepseek["n_group"].get<int>() + 1;
  check_config_refused(deepseek.dump(), "c.json: topk_group: 5 groups cannot be chosen from 4");
}

TEST_CASE("what evens the choice of experts out is read from a config") {
  const auto tiny = [](const std::string& family) {
    return json::parse(
        read_text_file(MESHWRIGHT_TEST_DATA "/tiny_moe/tiny-" + family + ".json", 1_MiB));
  };
  const auto routers = [](const json& config) {
    const OpGraph graph = read_hugging_face(JsonInput::parse(config.dump(), "c.json"), "c");
    std::vector<GraphOp> found;
    std::ranges::copy_if(graph.ops, std::back_inserter(found),
                         [](const GraphOp& op) { return op.kind == OpKind::Router; });
    REQUIRE(!found.empty());
    return found;
  };
  const auto balance = [&](const json& config) {
    return std::get<RouterAttributes>(routers(config)[0].attributes).balance;
  };
  // The class adds the loss only where it is asked for its logits. It counts all of a token's
  // choices, and has one loss of all layers.
  json mixtral = tiny("mixtral");
  mixtral["router_aux_loss_coef"] = 0.02;
  mixtral["output_router_logits"] = false;
  CHECK(balance(mixtral) == 0);
  mixtral["output_router_logits"] = true;
  const auto layers = mixtral["num_hidden_layers"].get<double>();
  const auto choices = mixtral["num_experts_per_tok"].get<double>();
  CHECK(balance(mixtral) == Approx(0.02 * choices / layers));
  mixtral["router_aux_loss_coef"] = -1.5;
  check_config_refused(mixtral.dump(),
                       "c.json: router_aux_loss_coef: expected at least 0, found -1.5");

  json deepseek = tiny("deepseek_v3");
  CHECK(balance(deepseek) == 0);
  CHECK(routers(deepseek)[0].weights.empty());
  deepseek["aux_loss_alpha"] = 0.25;
  deepseek["moe_router_bias_update_rate"] = 0.5;
  CHECK(balance(deepseek) == 0.25);
  for (const GraphOp& router : routers(deepseek)) {
    CHECK(router.weights.size() == 1);
    CHECK(std::get<RouterAttributes>(router.attributes).bias_rate == 0.5);
  }
  deepseek["seq_aux"] = false;
  check_config_refused(deepseek.dump(),
                       "c.json: seq_aux: only true is supported: a loss of the tokens of several "
                       "sequences together would depend on how a batch is cut");
  deepseek["aux_loss_alpha"] = -1;
  check_config_refused(deepseek.dump(), "c.json: aux_loss_alpha: expected at least 0, found -1");
  deepseek["aux_loss_alpha"] = 0;
  deepseek["moe_router_bias_update_rate"] = -1;
  check_config_refused(deepseek.dump(),
                       "c.json: moe_router_bias_update_rate: expected at least 0, found -1");
}

TEST_CASE("learned positions limit the sequence") {
  const auto longest = [](const char* preset) {
    return read_model(preset, MESHWRIGHT_DATA).longest_sequence;
  };
  CHECK(longest("gpt2") == 1024);
  CHECK(longest("opt-125m") == 2048);
  CHECK(longest("bert-base") == 512);
  CHECK(longest("roberta-base") == 512);  // 514 rows, two of them for padding
  CHECK(!longest("llama3-8b"));
}

TEST_CASE("keys that say nothing about the graph are ignored, and a null is a missing key") {
  CHECK(parameters(llama(R"(, "torch_dtype": "bfloat16", "anything": [1])")) ==
        parameters(llama()));
  CHECK(parameters(llama(R"(, "num_key_value_heads": null)")) == parameters(llama()));
}

TEST_CASE("sizes beyond 64 bits are an error, not a small number") {
  check_config_refused(
      R"({"model_type": "llama", "vocab_size": 2147483648, "hidden_size": 2147483648,
                    "intermediate_size": 2147483648, "num_hidden_layers": 8,
                    "num_attention_heads": 1})",
      "c.json: weight model.layers.0.self_attn.q_proj.weight: the sizes are too large: "
      "4611686020574871552 + 4611686018427387904 does not fit into 64 bits");
}

TEST_CASE("truncated and deeply nested configs are refused") {
  check_config_refused(
      R"({"model_type": "llama", "vocab_)",
      "c.json: line 1, column 32: not valid JSON: invalid string: missing closing quote; "
      "last read: '\"vocab_'; expected string literal");
  const std::string whole = llama();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CHECK_THROWS_AS(parameters(whole.substr(0, size)), InputError);
  }
  CHECK_THROWS_AS(parameters("{\"model_type\": " + std::string(100, '[') + "}"), InputError);
}

}  // namespace meshwright
