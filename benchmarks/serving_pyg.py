"""The peer of a served run: a service that reads the whole neighbourhood of a new node, with PyG, at every request.

    python benchmarks/serving_pyg.py RUN --port 8001

What a message-passing model needs: all nodes within K hops with their features, the edges among them, K products; then
the same head as the run's own. Degrees are those of the graph with the new node in it. All of it is in memory.
"""

from __future__ import annotations

import argparse
import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.utils import degree, k_hop_subgraph

from gamlp.serve import open_generation
from gamlp.training import to_probabilities


class Neighbourhood:
    """A graph as PyG has it, and a bundle's model."""

    def __init__(self, run: Path) -> None:
        opened = open_generation(run)
        graph, recipe = opened.graph, opened.bundle.recipe.propagation
        self.bundle, self.model, self.count = opened.bundle, opened.bundle.model(), graph.nodes.count
        parts = [(rows, others) for rows, others, _ in graph.relation.edges()]
        target, source = (np.concatenate([part[index] for part in parts]) for index in (0, 1))
        self.edges = torch.from_numpy(np.stack([source, target]).astype(np.int64))
        rows = opened.rows()
        first = opened.store.signals["features"].read(0, self.count, 0)[:, 0]
        self.signals: list[tuple[Tensor, int, float]] = [
            (torch.from_numpy(np.asarray(first, np.float32)), rows.hops, recipe.r)
        ]
        if rows.label_hops is not None:
            hot = opened.store.signals["labels"].read(0, self.count, 0)[:, 0]
            label_r = recipe.r if recipe.label_r is None else recipe.label_r
            self.signals.append((torch.from_numpy(np.asarray(hot, np.float32)), rows.label_hops, label_r))
        self.factor = rows.label_factor

    @torch.inference_mode()
    def answer(self, features: list[float], neighbours: list[int]) -> list[float]:
        new, heard = self.count, torch.tensor(neighbours)
        ends = torch.stack(
            [torch.cat([heard, torch.full_like(heard, new)]), torch.cat([torch.full_like(heard, new), heard])]
        )
        edges = torch.cat([self.edges, ends], 1)
        found = []
        for values, hops, r in self.signals:
            nodes, inside, place, _ = k_hop_subgraph(new, hops, edges, relabel_nodes=True, num_nodes=new + 1)
            x = torch.zeros(len(nodes), values.shape[1])
            old = nodes < new
            x[old] = values[nodes[old]]
            if values.shape[1] == len(features) and not found:
                x[place] = torch.tensor(features)
            # Degrees in the whole graph: those at the rim have neighbours outside.
            degrees = (degree(edges[1], new + 1) + 1)[nodes]
            weights = degrees[inside[1]] ** (r - 1) * degrees[inside[0]] ** -r
            matrix = (
                torch.sparse_coo_tensor(inside.flip(0), weights, (len(nodes), len(nodes))).coalesce().to_sparse_csr()
            )
            loops = (1 / degrees)[:, None]
            states = [x]
            for _ in range(hops):
                states.append(matrix @ states[-1] + loops * states[-1])
            found.append(torch.stack([state[place].reshape(-1) for state in states])[None, None])
        y = found[1] * self.factor if len(found) > 1 else None
        probabilities: list[float] = to_probabilities(self.model(found[0], y), self.bundle.multi_label)[0].tolist()
        return probabilities


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--port", type=int, default=0)
    given = parser.parse_args()
    served = Neighbourhood(given.run)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body: Any = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            said = [served.answer(node["features"], node["neighbours"]) for node in body["nodes"]]
            content = json.dumps({"probabilities": said}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", given.port), Handler) as server:
        print(server.server_port, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
