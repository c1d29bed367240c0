"""What three load generators write for a request, rebuilt field by field from their sources.

- guidellm 0.8.1: `GenerativeBenchmarksReport` in guidellm/benchmark/schemas/report.py and
  `GenerativeRequestStats` in guidellm/schemas/base/request_stats.py, as `model_dump(mode="json")` writes
  them. Fields of the report that hold totals or settings are left out, save those that are read.
- aiperf 0.13.0: `MetricRecordInfo` in aiperf/common/models/record_models.py, as
  `model_dump(exclude_none=True, mode="json")` writes it into profile_export.jsonl.
- vLLM: `benchmark` and `main_async` in vllm/benchmarks/serve.py at commit 009e6d4 of its repository, as
  `vllm bench serve --save-result --save-detailed` writes it. Before `start_times`, `latencies` and
  `queue_times` were added, a result had the other fields only.
"""

NO_USAGE = {
    "cached_tokens": None,
    "text_words": None,
    "text_characters": None,
    "image_tokens": None,
    "image_count": None,
    "image_pixels": None,
    "image_bytes": None,
    "video_tokens": None,
    "video_frames": None,
    "video_seconds": None,
    "video_bytes": None,
    "audio_tokens": None,
    "audio_samples": None,
    "audio_seconds": None,
    "audio_bytes": None,
    "tool_call_tokens": None,
    "mixed_content_tool_tokens": None,
    "tool_call_count": None,
}


def guidellm_request(start, ttft, itl, tokens, late=0.01):
    """A request that was answered; times in seconds."""
    first, last = start + ttft, start + ttft + itl * (tokens - 1)
    end = last + 0.01
    return {
        "type_": "generative_request_stats",
        "request_id": f"request-{start}",
        "response_id": "cmpl-1",
        "request_args": None,
        "output": "text",
        "reasoning_output": None,
        "tool_calls": None,
        "info": {
            "request_id": f"request-{start}",
            "conversation_id": None,
            "history_len": 0,
            "turn_index": 0,
            "preceding_nodes": 0,
            "node_id": None,
            "agent_id": None,
            "parent_node_ids": [],
            "status": "completed",
            "scheduler_node_id": 0,
            "scheduler_process_id": 1,
            "scheduler_start_time": 100.0,
            "timings": {
                "targeted_start": start - late,
                "predecessor_completed": None,
                "queued": start - 2 * late,
                "dequeued": start - 2 * late,
                "scheduled_at": start - late,
                "resolve_start": start - late,
                "request_start": start,
                "first_request_iteration": first,
                "first_token_iteration": first,
                "first_output_token_iteration": first,
                "last_token_iteration": last,
                "last_request_iteration": last,
                "request_iterations": tokens,
                "token_iterations": tokens,
                "last_request_sent": None,
                "request_sent_sum": 0.0,
                "request_sent_count": 0,
                "token_received_sum": 0.0,
                "token_received_count": 0,
                "request_end": end,
                "resolve_end": end,
                "finalized": end,
            },
            "settings": {"relative_timestamp": None, "requeue_delay": None, "trace_duration": None},
            "error": None,
            "traceback": None,
            "started_at": start,
            "completed_at": end,
        },
        "input_metrics": {"text_tokens": 20, **NO_USAGE, "total_tokens": 20},
        "response_metrics": None,
        "output_metrics": {"text_tokens": tokens, **NO_USAGE, "total_tokens": tokens},
        "request_start_time": start,
        "request_end_time": end,
        "request_latency": end - start,
        "request_dispatch_delay": late,
        "turn_predecessor_delay": 0.0,
        "turn_scheduling_delay": late,
        "request_scheduled_latency": end - start + late,
        "prompt_tokens": 20,
        "cached_tokens": None,
        "output_tokens": tokens,
        "total_tokens": 20 + tokens,
        "time_to_first_token_ms": 1e3 * ttft,
        "time_to_last_round_trip_ms": None,
        "avg_round_trip_time_ms": None,
        "time_per_output_token_ms": 1e3 * (last - start) / tokens,
        "inter_token_latency_ms": 1e3 * itl if tokens > 1 else None,
        "tokens_per_second": (20 + tokens) / (end - start),
        "output_tokens_per_second": tokens / (end - start),
        "time_to_first_output_token_ms": 1e3 * ttft,
        "iter_tokens_per_iteration": 1.0 if tokens > 1 else None,
        "output_tokens_per_iteration": 1.0,
    }


def guidellm_report(*benchmarks, errored=0, made=None):
    """A report of benchmarks, each a list of requests that were answered."""
    failed = [guidellm_request(1.0, 0.1, 0.1, 2) for _ in range(errored)]
    return {
        "metadata": {
            "version": 2,
            "guidellm_version": "0.8.1",
            "python_version": "3.11.7",
            "platform": "Linux",
        },
        "config": {},
        "benchmarks": [
            {
                "type_": "generative_benchmark",
                "config": {"strategy": {"type_": "constant", "rate": 2.0}},
                "scheduler_state": {},
                "scheduler_metrics": {
                    "requests_made": {
                        "successful": len(requests) if made is None else made,
                        "errored": errored,
                        "incomplete": 0,
                        "total": len(requests) + errored,
                    }
                },
                "metrics": {},
                "requests": {"successful": requests, "errored": failed, "incomplete": [], "total": None},
                "warnings": [],
                "start_time": 100.0,
                "end_time": 200.0,
                "duration": 100.0,
                "warmup_duration": 0.0,
                "cooldown_duration": 0.0,
            }
            for requests in benchmarks
        ],
        "conclusions": [],
    }


def aiperf_record(number, start, ttft, itl, tokens, *, phase="profiling", error=None, unit="ms"):
    """A line of profile_export.jsonl; times in seconds."""
    times = 1e3 if unit == "ms" else 1e9
    begun = int(start * 1e9)
    metrics = {
        "request_latency": {"value": times * (ttft + itl * (tokens - 1)), "unit": unit},
        "time_to_first_token": {"value": times * ttft, "unit": unit},
        "inter_token_latency": {"value": times * itl, "unit": unit},
        "output_sequence_length": {"value": tokens, "unit": "tokens"},
        "input_sequence_length": {"value": 20, "unit": "tokens"},
    }
    if tokens == 1:
        del metrics["inter_token_latency"]
    record = {
        "metadata": {
            "session_num": number,
            "x_request_id": f"request-{number}",
            "x_correlation_id": f"session-{number}",
            "conversation_id": f"conversation-{number}",
            "turn_index": 0,
            "credit_issued_ns": begun - 10_000_000,
            "request_start_ns": begun,
            "request_ack_ns": begun + 1_000_000,
            "request_end_ns": begun + 500_000_000,
            "worker_id": "worker-1",
            "record_processor_id": "record-processor-1",
            "benchmark_phase": phase,
            "was_cancelled": False,
            "context_overflow_skip": False,
            "agent_depth": 0,
        },
        "metrics": metrics,
    }
    return record | ({} if error is None else {"metrics": {}, "error": {"code": 500, "message": error}})


def vllm_result(requests, *, is_old=False, errors=()):
    """A result of requests (start, ttft, itl, tokens); those whose numbers are in `errors` failed."""
    good = [None if k in errors else request for k, request in enumerate(requests)]
    itls = [[] if one is None else [one[2]] * (one[3] - 1) for one in good]
    ttfts = [0.0 if one is None else one[1] for one in good]
    result = {
        "date": "20261116-120000",
        "endpoint_type": "vllm",
        "backend": "vllm",
        "label": None,
        "model_id": "model",
        "tokenizer_id": "model",
        "num_prompts": len(requests),
        "request_rate": 2.0,
        "burstiness": 1.0,
        "max_concurrency": None,
        "duration": 100.0,
        "completed": len(requests) - len(errors),
        "failed": len(errors),
        "total_input_tokens": 20 * len(requests),
        "total_output_tokens": sum(one[3] for one in good if one),
        "request_throughput": 2.0,
        "request_goodput": None,
        "output_throughput": 20.0,
        "total_token_throughput": 60.0,
        "input_lens": [20] * len(requests),
        "output_lens": [0 if one is None else one[3] for one in good],
        "ttfts": ttfts,
        "itls": itls,
        "latencies": [ttft + sum(itl) for ttft, itl in zip(ttfts, itls, strict=True)],
        "start_times": [one[0] for one in requests],
        "queue_times": [0.01] * len(requests),
        "generated_texts": ["text"] * len(requests),
        "errors": ["Traceback" if one is None else "" for one in good],
        "max_output_tokens_per_s": 30.0,
        "max_concurrent_requests": 3,
        "rtfx": 0.0,
        "mean_ttft_ms": 100.0,
    }
    new = ("latencies", "start_times", "queue_times")
    return {name: value for name, value in result.items() if not (is_old and name in new)}
