view model =
    div [] <|
        List.map viewItem <| List.filter .visible <| model.items

total xs = xs |> List.map .price |> List.sum |> String.fromFloat
apply f x = f <|x|> identity
ket psi = "<" ++ psi ++ "|" ++ "|" ++ psi ++ ">"
-- ⟨ψ|φ⟩ in ASCII is <psi|phi>, and |end><end| is a projector
