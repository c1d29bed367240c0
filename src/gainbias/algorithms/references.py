"""The bibliography: what the keys in the records of algorithms stand for."""

from __future__ import annotations

REFERENCES: dict[str, str] = {
    "bhandari2018finite": "Bhandari, Russo, Singal: A Finite Time Analysis of Temporal Difference Learning "
    "with Linear Function Approximation. COLT 2018",
    "blaser2024almost": "Blaser, Zhang: Almost Sure Convergence of Average Reward Temporal Difference "
    "Learning. arXiv 2409.19546, 2024",
    "chen2025adaptive": "Chen: Non-Asymptotic Guarantees for Average-Reward Q-Learning with Adaptive "
    "Stepsizes. arXiv 2504.18743, 2025",
    "chen2025seminorm": "Chen, Zhang, Zhang, Haque, Maguluri: A Non-Asymptotic Theory of Seminorm Lyapunov "
    "Stability. arXiv 2502.14208, 2025",
    "devraj2022relative": "Devraj, Meyn: Q-Learning with Uniformly Bounded Variance. IEEE Transactions on "
    "Automatic Control 67, 2022",
    "gainbias": "This package",
    "haque2024stochastic": "Haque, Maguluri: Stochastic Approximation with Unbounded Markovian Noise: A "
    "General-Purpose Theorem. arXiv 2410.21704, AISTATS 2025",
    "kim2025implicit": "Kim, Cho, Laber: Implicit Updates for Average-Reward Temporal Difference Learning. "
    "arXiv 2510.06149, 2025",
    "li2024stochastic": "Li, Wu, Lan: Stochastic First-Order Methods for Average-Reward Markov Decision "
    "Processes. arXiv 2205.05800, Mathematics of Operations Research 2024",
    "sakha2026relative": "Sakha, Kamalapurkar, Meyn: arXiv 2603.27874, 2026",
    "tian2026bridging": "Tian, Chen, Paschalidis, Olshevsky: Bridging the Gap Between Average and Discounted "
    "TD Learning",
    "tsitsiklis1999average": "Tsitsiklis, Van Roy: Average Cost Temporal-Difference Learning. Automatica 35, "
    "1999",
    "wan2021learning": "Wan, Naik, Sutton: Learning and Planning in Average-Reward Markov Decision "
    "Processes. ICML 2021",
    "yu2009convergence": "Yu, Bertsekas: Convergence Results for Some Temporal Difference Methods Based on "
    "Least Squares. IEEE Transactions on Automatic Control 54, 2009",
    "zhang2021finite": "Zhang, Zhang, Maguluri: Finite Sample Analysis of Average-Reward TD Learning and "
    "Q-Learning. NeurIPS 2021",
}
"""Citations by key."""
